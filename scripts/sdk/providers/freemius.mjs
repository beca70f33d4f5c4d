import { Freemius } from '@freemius/sdk'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@freemius/sdk')
export const secret = 'sk_freemius0123456789abcdefghijkl'
export const otherSecret = 'sk_freemius-of-somebody-else-0123'
export const tolerance = null
export const signature = { header: 'X-Signature', encoding: 'hex' }
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id, now }) => JSON.stringify({ id, type: 'license.created', developer_id: '1', plugin_id: '2', created: new Date(now * 1000).toISOString(), objects: {} })

export function sign({ body, secret }) {
  return { 'X-Signature': hmac('sha256', secret, body) }
}

const listener = (secret) => new Freemius({ productId: 1, apiKey: 'unused', secretKey: secret, publicKey: 'pk_unused' }).webhook.createListener()

export function verify({ headers, body }, { secret }) {
  return listener(secret).verifySignature(body, headers['x-signature'])
}
