import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Zendesk/ZendeskTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ=='
export const otherSecret = 'zendesk-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Zendesk-Webhook-Signature', encoding: 'base64' }
export const timestamp = { header: 'X-Zendesk-Webhook-Signature-Timestamp', unit: 'rfc3339' }

export const sample = ({ id, now }) =>
  JSON.stringify({ account_id: 1, id, time: new Date(now * 1000).toISOString(), type: 'zen:event-type:user.created', zendesk_event_version: '2022-11-06', subject: 'zen:user:1', detail: { id: '1' }, event: {} })

export function sign({ body, now, id, secret }) {
  const at = new Date(now * 1000).toISOString().replace('.000', '')
  return {
    'X-Zendesk-Webhook-Id': 'webhook_1',
    'X-Zendesk-Webhook-Invocation-Id': id,
    'X-Zendesk-Webhook-Signature-Timestamp': at,
    'X-Zendesk-Webhook-Signature': hmac('sha256', secret, [at, body], 'base64'),
  }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}

export async function* cases({ basic, put }) {
  yield { name: 'another invocation id', valid: true, request: { ...basic, headers: put(basic.headers, 'X-Zendesk-Webhook-Invocation-Id', '01J0') } }
}
