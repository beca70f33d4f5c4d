import Increase from 'increase'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('increase')
// Standard Webhooks, but with the secret's characters as the key: nothing is decoded.
export const secret = 'increase shared secret 0123456789'
export const otherSecret = 'increase shared secret of somebody else'
export const { tolerance, signature, timestamp, signedHeaders, sign } = standard('webhook', (secret) => secret)
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

const client = new Increase({ apiKey: 'unused' })

export const sample = ({ id, now }) =>
  JSON.stringify({ id, type: 'event', category: 'account.created', associated_object_id: 'account_1', associated_object_type: 'account', created_at: new Date(now * 1000).toISOString() })

export function verify({ headers, body }, { secret }) {
  client.events.unwrap(body.toString(), { headers, key: secret })
  return true
}

export async function* cases(tools) {
  yield* standard('webhook', (secret) => secret).cases(tools)
  const looksEncoded = 'whsec_MDEyMzQ1Njc4OWFiY2RlZg=='
  yield { name: 'secret that looks like base64', valid: true, request: await tools.make({ secret: looksEncoded }), keys: { secret: looksEncoded } }
  const decoded = Buffer.from('MDEyMzQ1Njc4OWFiY2RlZg==', 'base64').toString()
  yield { name: 'secret decoded from base64', valid: false, request: await tools.make({ secret: decoded }), keys: { secret: looksEncoded } }
}
