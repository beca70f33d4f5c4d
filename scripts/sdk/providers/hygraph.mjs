import utils from '@hygraph/utils'
import { hmac, installed } from '../frame.mjs'

export const notSent = 'the SDK goes by position and wants the signature first; send writes it behind its parts'
export const sdk = installed('@hygraph/utils')
export const secret = 'hygraph-webhook-secret-0123456789abcdef'
export const otherSecret = 'hygraph-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'gcms-signature', pattern: /sign=([^,]*),/, encoding: 'base64', prefix: 'sign=' }
export const timestamp = { header: 'gcms-signature', pattern: /t=(\d*)$/, unit: 'ms' }
export const leftOut = {
  'empty body': 'the SDK takes an empty body for a missing one',
  'prefix missing': 'the SDK takes the signature without its name too',
}

export const sample = ({ id }) => JSON.stringify({ operation: 'publish', data: { __typename: 'Post', id, stage: 'PUBLISHED' } })

// What is signed is a JSON object that holds the body as a string.
export function sign({ body, now, secret, environment = 'master' }) {
  const payload = JSON.stringify({ Body: body.toString(), EnvironmentName: environment, TimeStamp: now * 1000 })
  return { 'gcms-signature': `sign=${hmac('sha256', secret, payload, 'base64')}, env=${environment}, t=${now * 1000}` }
}

export function verify({ headers, body }, { secret }) {
  return utils.verifyWebhookSignature({ rawPayload: body.toString(), signature: headers['gcms-signature'], secret })
}

export async function* cases({ make, basic, get, put }) {
  yield { name: 'another environment', valid: true, request: await make({ environment: 'staging' }) }
  const value = get(basic.headers, 'gcms-signature')
  yield { name: 'environment changed', valid: false, request: { ...basic, headers: put(basic.headers, 'gcms-signature', value.replace('env=master', 'env=staging')) } }
}
