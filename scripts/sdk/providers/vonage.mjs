import { verifySignature } from '@vonage/jwt'
import { digest, hmac, installed, jwt } from '../frame.mjs'

export const sdk = installed('@vonage/jwt')
export const secret = 'vonage-signature-secret-0123456789abcdef'
export const otherSecret = 'vonage-signature-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Authorization', pattern: /\.([^.]*)$/, encoding: 'base64url' }

export const sample = ({ id, now }) => JSON.stringify({ message_uuid: id, to: '447700900000', from: '447700900001', timestamp: new Date(now * 1000).toISOString(), status: 'submitted', channel: 'sms' })

export function sign({ body, now, id, secret, header = { alg: 'HS256', typ: 'JWT' }, claims = {} }) {
  const all = { iat: now, jti: id, iss: 'Vonage', payload_hash: digest('sha256', body), api_key: 'a1b2c3d4', application_id: 'application_1', ...claims }
  return { Authorization: `Bearer ${jwt(header, all, (signed) => hmac('sha256', secret, signed, 'base64url'))}` }
}

// The package judges the token; that the hash in it is the body's is for the receiver to see.
export function verify({ headers, body }, { secret }) {
  const [scheme, token] = headers.authorization.split(' ')
  if (scheme !== 'Bearer' || !verifySignature(token, secret)) return false
  return JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).payload_hash === digest('sha256', body)
}

export async function* cases({ make, NOW }) {
  yield { name: 'algorithm none', valid: false, request: await make({ header: { alg: 'none', typ: 'JWT' } }) }
  yield { name: 'algorithm HS512 claimed', valid: false, request: await make({ header: { alg: 'HS512', typ: 'JWT' } }) }
  yield { name: 'hash of another body', valid: false, request: await make({ claims: { payload_hash: digest('sha256', '{}') } }) }
  yield { name: 'hash left out', valid: false, request: await make({ claims: { payload_hash: undefined } }) }
  yield { name: 'expired', valid: false, request: await make({ claims: { exp: NOW - 3600 } }) }
  yield { name: 'not yet expired', valid: true, request: await make({ claims: { exp: NOW + 3600 } }) }
}
