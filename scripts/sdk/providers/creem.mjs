import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

// The package's module form has an import that Node cannot resolve; the other form is the same code.
const { verifyWebhookSignature } = createRequire(import.meta.url)('creem/webhooks')

export const sdk = installed('creem')
export const secret = 'whsec_creem0123456789abcdef'
export const otherSecret = 'whsec_creem-of-somebody-else'
export const tolerance = null
export const signature = { header: 'creem-signature', encoding: 'hex' }
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id, now }) => JSON.stringify({ id, eventType: 'checkout.completed', created_at: now * 1000, object: { id: 'ch_1', object: 'checkout' } })

export function sign({ body, secret }) {
  return { 'creem-signature': hmac('sha256', secret, body) }
}

export async function verify({ headers, body }, { secret }) {
  await verifyWebhookSignature(body, headers, secret)
  return true
}
