import { createRequire } from 'node:module'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

const { verifyWebhook } = createRequire(import.meta.url)('@gr4vy/sdk')

export const sdk = installed('@gr4vy/sdk')
export const secret = 'gr4vy-webhook-secret-0123456789'
export const otherSecret = 'gr4vy-webhook-secret-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'X-Gr4vy-Signature', pattern: /^([^,]*)/, encoding: 'hex', several: (a, b) => `${a},${b}` }
export const timestamp = { header: 'X-Gr4vy-Timestamp', unit: 's' }
export const leftOut = aheadUnlimited

export const sample = ({ id, now }) => JSON.stringify({ type: 'event', id, created_at: new Date(now * 1000).toISOString(), target: { type: 'transaction', id: 'transaction_1' } })

export function sign({ body, now, secret }) {
  return { 'X-Gr4vy-Webhook-ID': 'webhook_1', 'X-Gr4vy-Timestamp': `${now}`, 'X-Gr4vy-Signature': hmac('sha256', secret, [`${now}.`, body]) }
}

// The tolerance is the caller's to name; 300 seconds stand in the SDK's readme.
export function verify({ headers, body }, { secret }) {
  verifyWebhook(body.toString(), secret, headers['x-gr4vy-signature'], headers['x-gr4vy-timestamp'], tolerance)
  return true
}
