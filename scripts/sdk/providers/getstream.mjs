import { verifySignature } from 'stream-chat'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('stream-chat')
export const secret = 'getstream-api-secret-0123456789abcdef'
export const otherSecret = 'getstream-api-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Signature', encoding: 'hex' }

export const sample = ({ id }) => JSON.stringify({ type: 'message.new', cid: 'messaging:general', message: { id, text: 'hello' } })

export function sign({ body, id, secret }) {
  return { 'X-Api-Key': 'unused', 'X-Webhook-Id': id, 'X-Webhook-Attempt': '1', 'X-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return verifySignature(body, headers['x-signature'], secret)
}

export async function* cases({ basic, put }) {
  yield { name: 'second attempt', valid: true, request: { ...basic, headers: put(basic.headers, 'X-Webhook-Attempt', '2') } }
}
