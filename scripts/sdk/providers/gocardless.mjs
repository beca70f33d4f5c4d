import { parse } from 'gocardless-nodejs/webhooks'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('gocardless-nodejs')
export const secret = 'gocardless-endpoint-secret-0123456789'
export const otherSecret = 'gocardless-endpoint-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Webhook-Signature', encoding: 'hex' }
export const leftOut = {
  'signature in upper case': 'the SDK decodes hex of either case',
  'empty body': 'the SDK parses the body as JSON',
}

export const sample = ({ id, now }) =>
  JSON.stringify({
    events: [{ id, created_at: new Date(now * 1000).toISOString(), resource_type: 'payments', action: 'confirmed', links: { payment: 'PM123' } }],
    meta: { webhook_id: 'WB123' },
  })

export function sign({ body, secret }) {
  return { 'Webhook-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  parse(body, secret, headers['webhook-signature'])
  return true
}
