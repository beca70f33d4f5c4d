import smartcar from 'smartcar'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('smartcar')
export const secret = 'smartcar-management-token-0123456789'
export const otherSecret = 'smartcar-management-token-of-somebody-else'
export const tolerance = null
export const signature = { header: 'SC-Signature', encoding: 'hex' }

const rewritten = 'the SDK signs the parsed body written anew'
export const leftOut = {
  'empty body': 'the SDK parses the body as JSON',
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'body written anew': rewritten,
  'newline put after the body': rewritten,
  'escapes and odd numbers': rewritten,
}

export const sample = ({ id, now }) =>
  JSON.stringify({ eventId: id, eventType: 'VEHICLE_STATE', data: { vehicle: { id: 'vehicle_1' }, signals: [] }, meta: { deliveryId: 'delivery_1', deliveredAt: now * 1000, mode: 'LIVE' } })

export function sign({ body, secret }) {
  return { 'SC-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return smartcar.verifyPayload(secret, headers['sc-signature'], JSON.parse(body))
}
