import { verifyRequestSignature } from 'customerio-node'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('customerio-node')
export const secret = 'customerio-signing-key-0123456789'
export const otherSecret = 'customerio-signing-key-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-CIO-Signature', encoding: 'hex' }
export const timestamp = { header: 'X-CIO-Timestamp', unit: 's' }

export const sample = ({ id, now }) =>
  JSON.stringify({ event_id: id, metric: 'delivered', object_type: 'email', timestamp: now, data: { customer_id: '0200102', delivery_id: 'delivery_1' } })

export function sign({ body, now, secret }) {
  return { 'X-CIO-Timestamp': `${now}`, 'X-CIO-Signature': hmac('sha256', secret, [`v0:${now}:`, body]) }
}

export function verify({ headers, body }, { secret }) {
  return verifyRequestSignature({ signingSecret: secret, timestamp: headers['x-cio-timestamp'], signature: headers['x-cio-signature'], body })
}
