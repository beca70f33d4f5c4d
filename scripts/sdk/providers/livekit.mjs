import { AccessToken, WebhookReceiver } from 'livekit-server-sdk'
import { NOW, digest, hmac, installed, jwt } from '../frame.mjs'

export const sdk = installed('livekit-server-sdk')
export const secret = 'livekit-api-secret-0123456789abcdef'
export const otherSecret = 'livekit-api-secret-of-somebody-else'
export const keyId = 'APIabcdef012345'
// For `exp` and `nbf` of the token; what it may be otherwise is the token's own matter.
export const tolerance = 10
export const signedBy = 'sdk'
export const contentType = 'application/webhook+json'
export const signature = { header: 'Authorization', pattern: /\.([^.]*)$/, encoding: 'base64url' }
export const leftOut = {
  'empty body': 'the SDK parses the body as JSON',
  'HS512': 'LiveKit signs with HS256; the SDK takes any HMAC',
}

export const sample = ({ id, now }) =>
  JSON.stringify({ event: 'room_started', id, createdAt: `${now}`, room: { sid: 'RM_1', name: 'room', emptyTimeout: 300, creationTime: `${now}` } })

export async function sign({ body, secret, keyId }) {
  const token = new AccessToken(keyId, secret, { ttl: 300 })
  token.sha256 = digest('sha256', body, 'base64')
  return { Authorization: await token.toJwt() }
}

export async function verify({ headers, body }, { secret, keyId }) {
  await new WebhookReceiver(keyId, secret).receive(body.toString(), headers.authorization)
  return true
}

export async function* cases({ basic, get, put }) {
  const claims = { iss: keyId, nbf: NOW, exp: NOW + 300, sha256: digest('sha256', basic.body, 'base64') }
  const token = (value) => ({ ...basic, headers: put(basic.headers, 'Authorization', value) })
  const made = (changed, header = {}, hash = 'sha256', key = secret) =>
    token(jwt({ alg: 'HS256', ...header }, { ...claims, ...changed }, (text) => hmac(hash, key, text, 'base64url')))

  yield { name: 'before it expires', valid: true, request: basic, now: NOW + 299 }
  yield { name: 'expired, within the tolerance', valid: true, request: basic, now: NOW + 305 }
  yield { name: 'expired, beyond the tolerance', valid: false, request: basic, now: NOW + 312 }
  yield { name: 'not yet valid, within the tolerance', valid: true, request: basic, now: NOW - 8 }
  yield { name: 'not yet valid, beyond the tolerance', valid: false, request: basic, now: NOW - 12 }
  yield { name: 'typ in the header', valid: true, request: made({}, { typ: 'JWT' }) }
  yield { name: 'no nbf', valid: true, request: made({ nbf: undefined }) }
  yield { name: 'no exp', valid: false, request: made({ exp: undefined }) }
  yield { name: 'exp no number', valid: false, request: made({ exp: 'later' }) }
  yield { name: 'another issuer', valid: false, request: made({ iss: 'APIother' }) }
  yield { name: 'no issuer', valid: false, request: made({ iss: undefined }) }
  yield { name: 'no hash of the body', valid: false, request: made({ sha256: undefined }) }
  yield { name: 'hash of the body in hex', valid: false, request: made({ sha256: digest('sha256', basic.body) }) }
  yield { name: 'hash of the body in base64url', valid: false, request: made({ sha256: `${digest('sha256', basic.body, 'base64url')}` }) }
  yield { name: 'alg none', valid: false, request: token(jwt({ alg: 'none' }, claims, () => '')) }
  yield { name: 'alg none with the signature', valid: false, request: made({}, { alg: 'none' }) }
  yield { name: 'alg RS256', valid: false, request: made({}, { alg: 'RS256' }) }
  yield { name: 'HS512', valid: false, request: made({}, { alg: 'HS512' }, 'sha512') }
  yield { name: 'HS512 said, HS256 done', valid: false, request: made({}, { alg: 'HS512' }) }
  yield { name: 'critical extension', valid: false, request: made({}, { crit: ['x'], x: 1 }) }
  yield { name: 'claims replaced', valid: false, request: token(get(basic.headers, 'Authorization').replace(/\.[^.]*\./, `.${Buffer.from(JSON.stringify({ ...claims, exp: NOW + 9999 })).toString('base64url')}.`)) }
  yield { name: 'as a bearer', valid: false, request: token(`Bearer ${get(basic.headers, 'Authorization')}`) }
  yield { name: 'two parts only', valid: false, request: token(get(basic.headers, 'Authorization').replace(/\.[^.]*$/, '')) }
}
