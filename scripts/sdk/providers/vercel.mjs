import { hmac } from '../frame.mjs'
import { sdk, validator } from '../nuxt.mjs'

const validate = await validator('vercel', 'isValidVercelWebhook')

export { sdk }
export const kind = 'source'
export const secret = 'vercel-webhook-secret-0123456789abcdef'
export const otherSecret = 'vercel-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'x-vercel-signature', encoding: 'hex' }
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) => JSON.stringify({ id, type: 'deployment.created', createdAt: now * 1000, payload: { team: { id: 'team_1' }, deployment: { id: 'dpl_1' } } })

export function sign({ body, id, secret }) {
  return { 'x-vercel-signature': hmac('sha1', secret, body, 'hex') }
}

export function verify(request, { secret }) {
  return validate(request, { secretKey: secret })
}

