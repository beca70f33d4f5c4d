import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { verifyWebhookSignature } = createRequire(import.meta.url)('@schematichq/schematic-typescript-node')

export const sdk = installed('@schematichq/schematic-typescript-node')
export const secret = 'schematic-webhook-secret-0123456789'
export const otherSecret = 'schematic-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Schematic-Webhook-Signature', encoding: 'hex' }
export const timestamp = { header: 'X-Schematic-Webhook-Timestamp', unit: 's' }
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id }) => JSON.stringify({ action: 'company.updated', entity_id: 'comp_1', entity_type: 'company', environment_id: 'env_1', message_id: id })

// The plus sign is signed too.
export function sign({ body, now, secret }) {
  return { 'X-Schematic-Webhook-Timestamp': `${now}`, 'X-Schematic-Webhook-Signature': hmac('sha256', secret, [body, `+${now}`]) }
}

export function verify({ headers, body }, { secret }) {
  verifyWebhookSignature({ headers, rawBody: body }, secret, body)
  return true
}
