import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Formstack/FormstackTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'formstack-webhook-secret-0123456789abcdef'
export const otherSecret = 'formstack-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-FS-Signature', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }

export function sign({ body, secret }) {
  return { 'X-FS-Signature': `sha256=${hmac('sha256', secret, body)}` }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}
