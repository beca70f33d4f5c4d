import { verifyWebhookSignature } from 'mailtrap'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('mailtrap')
export const secret = 'mailtrap-signing-secret-0123456789'
export const otherSecret = 'mailtrap-signing-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Mailtrap-Signature', encoding: 'hex' }
export const leftOut = { 'empty body': 'the SDK wants a body', 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id, now }) => JSON.stringify({ events: [{ event: 'delivery', message_id: 'message_1', event_id: id, timestamp: now }] })

export function sign({ body, secret }) {
  return { 'Mailtrap-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return verifyWebhookSignature(body, headers['mailtrap-signature'], secret)
}
