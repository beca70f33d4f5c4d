import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const MessageValidator = createRequire(import.meta.url)('viber-bot/lib/message/message-validator.js')

export const sdk = installed('viber-bot')
export const secret = '445da6az1s345z78-dazcczb2542zv51a-e0vc5fva17480im9'
export const otherSecret = 'viber-auth-token-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Viber-Content-Signature', encoding: 'hex' }

export const sample = ({ id, now }) =>
  JSON.stringify({ event: 'message', timestamp: now * 1000, message_token: id, sender: { id: 'user_1', name: 'John' }, message: { type: 'text', text: 'hello' } })

export function sign({ body, secret }) {
  return { 'X-Viber-Content-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return new MessageValidator({ debug() {} }, secret).validateMessage(headers['x-viber-content-signature'], body)
}
