import { bare, load } from '../bare.mjs'
import { hmac } from '../frame.mjs'

const { intercom } = load('@activepieces/piece-intercom', 'src/index.js', [])

export const sdk = bare('@activepieces/piece-intercom')
export const kind = 'source'
export const secret = 'intercom-client-secret-0123456789abcdef'
export const otherSecret = 'intercom-client-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Hub-Signature', pattern: /^sha1=(.*)$/, encoding: 'hex', prefix: 'sha1=' }

export const sample = ({ id, now }) =>
  JSON.stringify({ type: 'notification_event', app_id: 'app_1', data: { type: 'notification_event_data', item: { type: 'ping' } }, topic: 'conversation.user.created', id, delivery_attempts: 1, delivered_at: 0, created_at: now })

export function sign({ body, secret }) {
  return { 'X-Hub-Signature': `sha1=${hmac('sha1', secret, body)}` }
}

export function verify({ headers, body }, { secret }) {
  return intercom.events.verify({ payload: { headers, rawBody: body }, webhookSecret: secret })
}
