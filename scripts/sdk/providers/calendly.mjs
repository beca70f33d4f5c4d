import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Calendly/CalendlyTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'calendly-signing-key-0123456789abcdef'
export const otherSecret = 'calendly-signing-key-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'Calendly-Webhook-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=' }
export const timestamp = { header: 'Calendly-Webhook-Signature', pattern: /t=([^,]*)/, unit: 's' }

export const sample = ({ id, now }) =>
  JSON.stringify({ created_at: new Date(now * 1000).toISOString(), created_by: 'https://api.calendly.com/users/1', event: 'invitee.created', payload: { uri: `https://api.calendly.com/scheduled_events/1/invitees/${id}`, email: 'a@example.com' } })

export function sign({ body, now, secret }) {
  return { 'Calendly-Webhook-Signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}
