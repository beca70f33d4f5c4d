import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { Unit } = createRequire(import.meta.url)('@unit-finance/unit-node-sdk')

export const sdk = installed('@unit-finance/unit-node-sdk')
export const secret = 'unit-webhook-token-0123456789abcdef'
export const otherSecret = 'unit-webhook-token-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Unit-Signature', encoding: 'base64' }

const rewritten = 'the SDK signs the parsed body written anew'
export const leftOut = {
  'empty body': 'the SDK parses the body as JSON',
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'escapes and odd numbers': rewritten,
  'body written anew': rewritten,
  'newline put after the body': rewritten,
}

export const sample = ({ id, now }) => JSON.stringify({ data: [{ id, type: 'customer.created', attributes: { createdAt: new Date(now * 1000).toISOString() }, relationships: {} }] })

export function sign({ body, secret }) {
  return { 'X-Unit-Signature': hmac('sha1', secret, body, 'base64') }
}

const { webhooks } = new Unit('unused', 'http://127.0.0.1')

export function verify({ headers, body }, { secret }) {
  return webhooks.verify(headers['x-unit-signature'], secret, JSON.parse(body))
}
