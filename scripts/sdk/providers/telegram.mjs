import { Bot, webhookCallback } from 'grammy'
import { installed } from '../frame.mjs'

export const sdk = installed('grammy')
export const kind = 'source'
export const secret = 'telegram-secret-token_0123456789'
export const otherSecret = 'telegram-secret-token_of_somebody_else'
export const tolerance = null
// A token, not a signature: the body may be anything.
export const ownBodies = true

export const sample = ({ now }) => JSON.stringify({ update_id: 10000, message: { message_id: 1, date: now, chat: { id: 1, type: 'private' }, text: 'hello' } })

export function sign({ secret }) {
  return { 'X-Telegram-Bot-Api-Secret-Token': secret }
}

const botInfo = { id: 1, is_bot: true, first_name: 'bot', username: 'bot' }

export async function verify({ method, url, headers, body }, { secret }) {
  const handle = webhookCallback(new Bot('1:unused', { botInfo }), 'std/http', { secretToken: secret })
  return (await handle(new Request(url, { method, headers, body }))).status === 200
}

export async function* cases({ make, basic, put }) {
  const token = (value) => ({ ...basic, headers: put(basic.headers, 'X-Telegram-Bot-Api-Secret-Token', value) })
  yield { name: 'another body', valid: true, request: { ...basic, body: Buffer.from('{"update_id":10001}') } }
  yield { name: 'another token', valid: false, request: await make({ secret: otherSecret }) }
  yield { name: 'token cut short', valid: false, request: token(secret.slice(0, -1)) }
  yield { name: 'token with a character more', valid: false, request: token(`${secret}0`) }
  yield { name: 'token in upper case', valid: false, request: token(secret.toUpperCase()) }
  yield { name: 'token empty', valid: false, request: token('') }
  yield { name: 'token missing', valid: false, request: token(undefined) }
}
