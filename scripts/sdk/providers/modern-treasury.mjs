import ModernTreasury from 'modern-treasury'
import { installed } from '../frame.mjs'

export const sdk = installed('modern-treasury')
export const secret = 'modern-treasury-webhook-key-0123456789'
export const otherSecret = 'modern-treasury-webhook-key-of-somebody-else'
export const tolerance = null
export const signedBy = 'sdk'
export const signature = { header: 'X-Signature', encoding: 'hex' }

const client = new ModernTreasury({ apiKey: 'unused', organizationID: 'unused' })

export const sample = ({ id }) => JSON.stringify({ event: 'completed', data: { id, object: 'payment_order', amount: 2000 } })

export function sign({ body, id, secret }) {
  return { 'X-Topic': 'payment_order', 'X-Webhook-ID': id, 'X-Signature': client.webhooks.getSignature(body.toString(), { key: secret }) }
}

export function verify({ headers, body }, { secret }) {
  return client.webhooks.validateSignature(body.toString(), headers, { key: secret })
}
