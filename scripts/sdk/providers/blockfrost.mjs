import { verifyWebhookSignature } from '@blockfrost/blockfrost-js'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@blockfrost/blockfrost-js')
export const secret = 'blockfrost-auth-token-0123456789'
export const otherSecret = 'blockfrost-auth-token-of-somebody-else'
export const tolerance = 600
export const signature = { header: 'Blockfrost-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${/v1=.*/.exec(b)[0]}` }
export const timestamp = { header: 'Blockfrost-Signature', pattern: /t=([^,]*)/, unit: 's' }

const rewritten = 'the SDK signs the parsed body written anew'
export const leftOut = {
  'empty body': 'the SDK parses the body as JSON',
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'body written anew': rewritten,
  'newline put after the body': rewritten,
  'escapes and odd numbers': rewritten,
  'in the future, beyond the tolerance': 'the SDK has no limit ahead',
  'far in the future': 'the SDK has no limit ahead',
}

export const sample = ({ id, now }) => JSON.stringify({ id, webhook_id: 'webhook_1', created: now, api_version: 1, type: 'block', payload: { height: 1 } })

export function sign({ body, now, secret }) {
  return { 'Blockfrost-Signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  verifyWebhookSignature(body, headers['blockfrost-signature'], secret)
  return true
}
