import { validateWebhook } from 'replicate'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('replicate')
export const secret = 'whsec_cmVwbGljYXRlLXNlY3JldC0wMTIzNDU2Nzg5YWI='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
const scheme = standard()
// The SDK compares no clock: see `tolerance` of Standard Webhooks for what a receiver should add.
export const tolerance = null
export const { signature, timestamp, signedHeaders, sign, cases } = scheme
const anyVersion = 'the SDK does not read what stands before the comma'
export const leftOut = { 'empty body': 'the SDK wants a body', 'another prefix': anyVersion, 'only under v1a': anyVersion, 'only under v2': anyVersion }

export const sample = ({ id, now }) =>
  JSON.stringify({ id, version: '5c7d5dc6dd8bf75c1acaa8565735e7986bc5b66206b55cca93cb72c9bf15ccaa', status: 'succeeded', created_at: new Date(now * 1000).toISOString(), output: 'text' })

export async function verify({ headers, body }, { secret }) {
  return validateWebhook({ id: headers['webhook-id'], timestamp: headers['webhook-timestamp'], signature: headers['webhook-signature'], body: body.toString(), secret })
}
