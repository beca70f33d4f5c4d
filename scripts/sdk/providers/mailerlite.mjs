import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('MailerLite/v2/MailerLiteTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'mailerlite-webhook-secret-0123456789abcdef'
export const otherSecret = 'mailerlite-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Signature', encoding: 'hex' }

export function sign({ body, secret }) {
  return { 'Signature': hmac('sha256', secret, body) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}
