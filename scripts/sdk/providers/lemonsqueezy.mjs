import { WebhookVerificationService } from '@hookflo/tern'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@hookflo/tern')
export const kind = 'source'
export const secret = 'lemonsqueezy-signing-secret-0123456789abcdef'
export const otherSecret = 'lemonsqueezy-signing-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ meta: { event_name: 'order_created', test_mode: true }, data: { type: 'orders', id, attributes: { total: 2000, created_at: new Date(now * 1000).toISOString() } } })

export function sign({ body, id, secret }) {
  return { 'X-Event-Name': 'order_created', 'X-Signature': hmac('sha256', secret, body) }
}

export async function verify({ method, url, headers, body }, { secret }) {
  const request = new Request(url, { method, headers, body })
  return (await WebhookVerificationService.verify(request, { platform: 'lemonsqueezy', secret })).isValid
}
