import { verifyWebhookSignature } from 'hook0-client'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('hook0-client')
export const secret = 'hook0-subscription-secret-0123456789'
export const otherSecret = 'hook0-subscription-secret-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'X-Hook0-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=' }
export const timestamp = { header: 'X-Hook0-Signature', pattern: /t=([^,]*)/, unit: 's' }
export const signedHeaders = ['X-Event-Id', 'X-Event-Type']
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too', 'prefix missing': 'the SDK then falls back to v0', 'another prefix': 'the SDK then falls back to v0' }

export function sign({ body, now, id, secret, names = ['x-event-id', 'x-event-type'] }) {
  const values = { 'x-event-id': id, 'x-event-type': 'storage.object.created' }
  const v0 = hmac('sha256', secret, [`${now}.`, body])
  const v1 = hmac('sha256', secret, [`${now}.${names.join(' ')}.${names.map((name) => values[name]).join('.')}.`, body])
  return { 'X-Event-Id': id, 'X-Event-Type': values['x-event-type'], 'X-Hook0-Signature': `t=${now},v0=${v0},h=${names.join(' ')},v1=${v1}` }
}

export function verify({ headers, body }, { secret }) {
  return verifyWebhookSignature(headers['x-hook0-signature'], body, new Headers(headers), secret, tolerance)
}

export async function* cases({ make, basic, get, put }) {
  const value = get(basic.headers, 'X-Hook0-Signature')
  const signed = (value) => ({ ...basic, headers: put(basic.headers, 'X-Hook0-Signature', value) })
  yield { name: 'one header signed', valid: true, request: await make({ names: ['x-event-id'] }) }
  yield { name: 'headers in another order', valid: true, request: await make({ names: ['x-event-type', 'x-event-id'] }) }
  yield { name: 'list of headers shortened', valid: false, request: signed(value.replace('h=x-event-id x-event-type', 'h=x-event-id')) }
  yield { name: 'v1 right, v0 wrong', valid: true, request: signed(value.replace(/v0=[^,]*/, `v0=${'0'.repeat(64)}`)) }
  yield { name: 'v0 right, v1 wrong', valid: false, request: signed(value.replace(/v1=.*/, `v1=${'0'.repeat(64)}`)) }
}
