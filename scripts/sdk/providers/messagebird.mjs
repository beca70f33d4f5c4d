import { createSecretKey } from 'node:crypto'
import webhook from 'messagebird/lib/webhook-signature-jwt.js'
import { NOW, digest, hmac, installed, jwt } from '../frame.mjs'

export const sdk = installed('messagebird')
export const secret = 'messagebird-signing-key-0123456789'
export const otherSecret = 'messagebird-signing-key-of-somebody-else'
// For `exp` and `nbf` of the token.
export const tolerance = 5
export const signsUrl = true
export const signature = { header: 'MessageBird-Signature-JWT', pattern: /\.([^.]*)$/, encoding: 'base64url' }
export const leftOut = {
  'HS512': 'MessageBird signs with HS256; the SDK takes HS384 and HS512 too',
  'hashes in upper case': 'the SDK decodes hex of either case',
  'no exp': 'the SDK takes a token that never expires',
}

export const sample = ({ id }) => JSON.stringify({ id, type: 'message.created', message: { id: 'm1', status: 'sent' } })

const claimsOf = ({ body, url, now, id }) => ({
  iss: 'MessageBird',
  nbf: now,
  exp: now + 60,
  jti: id,
  url_hash: digest('sha256', url),
  payload_hash: body.length ? digest('sha256', body) : undefined,
})

export function sign(asked) {
  const header = { alg: 'HS256', typ: 'JWT' }
  return { 'MessageBird-Signature-JWT': jwt(header, claimsOf(asked), (text) => hmac('sha256', asked.secret, text, 'base64url')) }
}

export async function verify({ headers, body, url }, { secret }) {
  const key = createSecretKey(Buffer.from(secret))
  return webhook.verify(url, body, headers['messagebird-signature-jwt'], key)
}

export async function* cases({ make, basic, get, put }) {
  const name = 'MessageBird-Signature-JWT'
  const claims = claimsOf({ body: basic.body, url: basic.url, now: NOW, id: 'evt_0001' })
  const token = (value) => ({ ...basic, headers: put(basic.headers, name, value) })
  const made = (changed, header = {}, hash = 'sha256') =>
    token(jwt({ alg: 'HS256', typ: 'JWT', ...header }, { ...claims, ...changed }, (text) => hmac(hash, secret, text, 'base64url')))
  const upper = { url_hash: claims.url_hash.toUpperCase(), payload_hash: claims.payload_hash.toUpperCase() }

  yield { name: 'get without a body', valid: true, request: await make({ method: 'GET', body: '' }) }
  yield { name: 'body where none was signed', valid: false, request: { ...(await make({ body: '' })), body: basic.body } }
  yield { name: 'before it expires', valid: true, request: basic, now: NOW + 59 }
  yield { name: 'expired, within the tolerance', valid: true, request: basic, now: NOW + 63 }
  yield { name: 'expired, beyond the tolerance', valid: false, request: basic, now: NOW + 67 }
  yield { name: 'not yet valid, within the tolerance', valid: true, request: basic, now: NOW - 4 }
  yield { name: 'not yet valid, beyond the tolerance', valid: false, request: basic, now: NOW - 7 }
  yield { name: 'no exp', valid: false, request: made({ exp: undefined }) }
  yield { name: 'another issuer', valid: false, request: made({ iss: 'SomebodyElse' }) }
  yield { name: 'no issuer', valid: false, request: made({ iss: undefined }) }
  yield { name: 'no jti', valid: false, request: made({ jti: undefined }) }
  yield { name: 'no url_hash', valid: false, request: made({ url_hash: undefined }) }
  yield { name: 'no payload_hash', valid: false, request: made({ payload_hash: undefined }) }
  yield { name: 'payload_hash empty', valid: false, request: made({ payload_hash: '' }) }
  yield { name: 'hashes in upper case', valid: false, request: made(upper) }
  yield { name: 'alg none', valid: false, request: token(jwt({ alg: 'none' }, claims, () => '')) }
  yield { name: 'alg RS256', valid: false, request: made({}, { alg: 'RS256' }) }
  yield { name: 'HS512', valid: false, request: made({}, { alg: 'HS512' }, 'sha512') }
  yield { name: 'HS512 said, HS256 done', valid: false, request: made({}, { alg: 'HS512' }) }
  yield { name: 'claims replaced', valid: false, request: token(get(basic.headers, name).replace(/\.[^.]*\./, `.${Buffer.from(JSON.stringify({ ...claims, exp: NOW + 9999 })).toString('base64url')}.`)) }
  yield { name: 'url with a port', valid: true, request: await make({ url: 'https://hooks.example.com:8443/path' }) }
}
