import { LinearWebhookClient } from '@linear/sdk/webhooks'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@linear/sdk')
export const recorded = 'elsewhere'
export const secret = 'lin_wh_0123456789abcdef'
export const tolerance = 60

export const sample = ({ id, now }) => JSON.stringify({ action: 'create', type: 'Issue', data: { id }, webhookTimestamp: now * 1000, webhookId: 'w1' })

export function sign({ body, id, secret }) {
  return { 'Linear-Delivery': id, 'Linear-Event': 'Issue', 'Linear-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return new LinearWebhookClient(secret).verify(body, headers['linear-signature'])
}
