import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Mautic/MauticTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'mautic-webhook-secret-0123456789abcdef'
export const otherSecret = 'mautic-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Webhook-Signature', encoding: 'base64' }

export function sign({ body, secret }) {
  return { 'Webhook-Signature': hmac('sha256', secret, body, 'base64') }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}
