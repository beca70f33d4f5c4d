import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Taiga/TaigaTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'taiga-webhook-secret-0123456789abcdef'
export const otherSecret = 'taiga-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-TAIGA-WEBHOOK-SIGNATURE', encoding: 'hex' }

export function sign({ body, secret }) {
  return { 'X-TAIGA-WEBHOOK-SIGNATURE': hmac('sha1', secret, body) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { key: secret } }))
}
