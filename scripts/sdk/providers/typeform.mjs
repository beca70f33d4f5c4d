import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Typeform/TypeformTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'typeform-webhook-secret-0123456789abcdef'
export const otherSecret = 'typeform-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Typeform-Signature', pattern: /^sha256=(.*)$/, encoding: 'base64', prefix: 'sha256=' }

export function sign({ body, secret }) {
  return { 'Typeform-Signature': `sha256=${hmac('sha256', secret, body, 'base64')}` }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}
