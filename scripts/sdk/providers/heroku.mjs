import { hmac } from '../frame.mjs'
import { sdk, validator } from '../nuxt.mjs'

const validate = await validator('heroku', 'isValidHerokuWebhook')

export { sdk }
export const kind = 'source'
export const secret = 'heroku-webhook-secret-0123456789abcdef'
export const otherSecret = 'heroku-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Heroku-Webhook-Hmac-SHA256', encoding: 'base64' }
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) => JSON.stringify({ id, created_at: new Date(now * 1000).toISOString(), resource: 'release', action: 'create', data: { id: 'release_1' }, webhook_metadata: { attempt: { id: 'attempt_1' }, delivery: { id: 'delivery_1' }, event: { id, include: 'api:release' }, webhook: { id: 'webhook_1' } } })

export function sign({ body, id, secret }) {
  return { 'Heroku-Webhook-Id': id, 'Heroku-Webhook-Hmac-SHA256': hmac('sha256', secret, body, 'base64') }
}

export function verify(request, { secret }) {
  return validate(request, { secretKey: secret })
}

