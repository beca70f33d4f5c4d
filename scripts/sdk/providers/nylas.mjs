import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('nylas')

export const { sdk, verify } = judge
export const secret = 'nylas-webhook-secret-0123456789abcdef'
export const otherSecret = 'nylas-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Nylas-Signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ specversion: '1.0', type: 'message.created', source: '/google/emails/realtime', id, time: now, webhook_delivery_attempt: 1, data: { application_id: 'application_1', object: { id: 'message_1' } } })

export function sign({ body, secret }) {
  return { 'X-Nylas-Signature': hmac('sha256', secret, body) }
}
