import { ScalekitClient } from '@scalekit-sdk/node'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@scalekit-sdk/node')
export const secret = 'whsec_c2NhbGVraXQtc2VjcmV0LTAxMjM0NTY3ODlhYg=='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard()

export const sample = ({ id, now }) =>
  JSON.stringify({ spec_version: '1', id, object: 'Directory', environment_id: 'env_1', occurred_at: new Date(now * 1000).toISOString(), type: 'organization.directory.user_created', data: { id: 'user_1' } })

export function verify({ headers, body }, { secret }) {
  return ScalekitClient.prototype.verifyWebhookPayload.call(ScalekitClient.prototype, secret, headers, body.toString())
}
