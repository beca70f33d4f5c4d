import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Trello/TrelloTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'trello-application-secret-0123456789abcdef'
export const otherSecret = 'trello-application-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Trello-Webhook', encoding: 'base64' }
export const signsUrl = true
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) =>
  JSON.stringify({ action: { id, idMemberCreator: 'member_1', type: 'updateCard', date: new Date(now * 1000).toISOString(), data: { card: { id: 'card_1', name: 'Card' } } }, model: { id: 'board_1' } })

// The URL is the callback as it was registered.
export function sign({ body, url, secret }) {
  return { 'X-Trello-Webhook': hmac('sha1', secret, [body, url], 'base64') }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { credentials: { oauthSecret: secret } }))
}
