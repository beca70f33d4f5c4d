import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { newSignatureValidator } = createRequire(import.meta.url)('connect-sdk-nodejs/lib/webhooks/validation.js')

export const sdk = installed('connect-sdk-nodejs')
export const secret = 'worldline-webhooks-secret-0123456789'
export const otherSecret = 'worldline-webhooks-secret-of-somebody-else'
export const keyId = 'worldline-key-1'
export const tolerance = null
export const signature = { header: 'X-GCS-Signature', encoding: 'base64' }

export const sample = ({ id, now }) =>
  JSON.stringify({ apiVersion: 'v1', id, created: new Date(now * 1000).toISOString(), merchantId: '1', type: 'payment.paid', payment: { id: 'payment_1' } })

export function sign({ body, secret, keyId }) {
  return { 'X-GCS-KeyId': keyId, 'X-GCS-Signature': hmac('sha256', secret, body, 'base64') }
}

export async function verify({ headers, body }, { secret, keyId }) {
  const store = {
    async getSecretKey(asked) {
      if (asked !== keyId) throw new Error('no such key')
      return secret
    },
  }
  await newSignatureValidator(store).validate(body, headers)
  return true
}

export async function* cases({ basic, put }) {
  yield { name: 'another key id', valid: false, request: { ...basic, headers: put(basic.headers, 'X-GCS-KeyId', 'worldline-key-2') } }
  yield { name: 'key id missing', valid: false, request: { ...basic, headers: put(basic.headers, 'X-GCS-KeyId', undefined) } }
}
