import Orb from 'orb-billing'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('orb-billing')
export const secret = 'orb-webhook-secret-0123456789abcdef'
export const otherSecret = 'orb-webhook-secret-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'X-Orb-Signature', pattern: /^v1=(.*)$/, encoding: 'hex', prefix: 'v1=' }
export const timestamp = { header: 'X-Orb-Timestamp', unit: 'rfc3339' }

const client = new Orb({ apiKey: 'unused' })

// Orb writes the time without a zone; it is in UTC.
const written = (now) => new Date(now * 1000).toISOString().replace('Z', '')

export const sample = ({ id, now }) =>
  JSON.stringify({ id, created_at: new Date(now * 1000).toISOString(), type: 'customer.created', details: {}, properties: {}, customer: { id: 'cus_1' } })

export function sign({ body, now, secret, at = written(now) }) {
  return { 'X-Orb-Timestamp': at, 'X-Orb-Signature': `v1=${hmac('sha256', secret, [`v1:${at}:`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  client.webhooks.verifySignature(body.toString(), headers, secret)
  return true
}

export async function* cases({ make, NOW }) {
  const seconds = new Date(NOW * 1000).toISOString().slice(0, 19)
  yield { name: 'time without a fraction', valid: true, request: await make({ at: seconds }) }
  yield { name: 'time with Z', valid: true, request: await make({ at: `${seconds}Z` }) }
  yield { name: 'time with microseconds', valid: true, request: await make({ at: `${seconds}.123456` }) }
  yield { name: 'time in unix seconds', valid: false, request: await make({ at: `${NOW}` }) }
}
