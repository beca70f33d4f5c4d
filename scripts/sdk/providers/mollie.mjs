import { SignatureValidator } from 'mollie-api-typescript/utils/webhooks/index.js'
import { installed } from '../frame.mjs'

export const sdk = installed('mollie-api-typescript')
export const secret = 'mollie-signing-secret-0123456789'
export const otherSecret = 'mollie-signing-secret-of-somebody-else'
export const tolerance = null
export const signedBy = 'sdk'
export const signature = { header: 'X-Mollie-Signature', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }
export const leftOut = { 'prefix missing': 'the SDK takes the signature without its prefix too' }

export const sample = ({ id, now }) =>
  JSON.stringify({ resource: 'event', id, type: 'payment-link.paid', entityId: 'pl_1', createdAt: new Date(now * 1000).toISOString() })

export async function sign({ body, secret }) {
  return { 'X-Mollie-Signature': `sha256=${await SignatureValidator.createSignature(body.toString(), secret)}` }
}

export function verify({ headers, body }, { secret, additionalSecrets = [] }) {
  return SignatureValidator.validate(body.toString(), [secret, ...additionalSecrets], headers['x-mollie-signature'])
}

export async function* cases({ make }) {
  const rotated = { additionalSecrets: [otherSecret] }
  yield { name: 'the first of two secrets', valid: true, request: await make(), keys: rotated }
  yield { name: 'the second of two secrets', valid: true, request: await make({ secret: otherSecret }), keys: rotated }
  yield { name: 'neither of two secrets', valid: false, request: await make({ secret: 'a third one' }), keys: rotated }
}
