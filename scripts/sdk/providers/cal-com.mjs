import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Cal/CalTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'cal-com-webhook-secret-0123456789abcdef'
export const otherSecret = 'cal-com-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Cal-Signature-256', encoding: 'hex' }

export function sign({ body, secret }) {
  return { 'X-Cal-Signature-256': hmac('sha256', secret, body) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}
