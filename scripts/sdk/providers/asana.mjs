import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Asana/AsanaTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'asana-webhook-secret-0123456789abcdef'
export const otherSecret = 'asana-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Hook-Signature', encoding: 'hex' }

export function sign({ body, secret }) {
  return { 'X-Hook-Signature': hmac('sha256', secret, body) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { hookSecret: secret } }))
}
