import commerce from 'coinbase-commerce-node'
import { installed } from '../frame.mjs'

export const sdk = installed('coinbase-commerce-node')
export const recorded = 'elsewhere'
export const secret = '01234567-89ab-cdef-0123-456789abcdef'
export const tolerance = null
export const signedBy = 'sdk'

export const sample = ({ id, now }) =>
  JSON.stringify({ attempt_number: 1, event: { id, resource: 'event', type: 'charge:confirmed', created_at: new Date(now * 1000).toISOString(), data: { code: 'ABC' } } })

export function sign({ body, secret }) {
  return { 'X-CC-Webhook-Signature': commerce.Webhook.computeSignature(body.toString(), secret) }
}

export function verify({ headers, body }, { secret }) {
  return commerce.Webhook.verifySigHeader(body.toString(), headers['x-cc-webhook-signature'], secret)
}
