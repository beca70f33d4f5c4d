import { SIGNATURE_HEADER_NAME, encodeSignatureHeader, isValidRequest } from '@sanity/webhook'
import { installed } from '../frame.mjs'

export const sdk = installed('@sanity/webhook')
export const secret = 'sanity webhook secret 0123456789'
export const otherSecret = 'sanity webhook secret of somebody else'
// The timestamp is signed, and its age is not looked at.
export const tolerance = null
export const signedBy = 'sdk'
export const signature = { header: SIGNATURE_HEADER_NAME, pattern: /v1=([^,]*)/, encoding: 'base64url', prefix: 'v1=' }
export const timestamp = { header: SIGNATURE_HEADER_NAME, pattern: /t=([^,]*)/, unit: 'ms' }
export const leftOut = { 'empty body': 'the SDK signs no empty body' }

export const sample = ({ id }) => JSON.stringify({ _id: id, _type: 'article', _rev: 'r1', title: 'Hello' })

export async function sign({ body, now, id, secret }) {
  const value = body.length ? await encodeSignatureHeader(body.toString(), now * 1000, secret) : 't=0,v1=none'
  return { 'idempotency-key': id, [SIGNATURE_HEADER_NAME]: value }
}

export function verify({ headers, body }, { secret }) {
  return isValidRequest({ headers, body: body.toString() }, secret)
}

export async function* cases({ basic, get, put }) {
  const value = get(basic.headers, SIGNATURE_HEADER_NAME)
  const signed = (text) => ({ ...basic, headers: put(basic.headers, SIGNATURE_HEADER_NAME, text) })
  yield { name: 'no timestamp', valid: false, request: signed(value.replace(/^t=\d+,/, '')) }
  yield { name: 'only under v2', valid: false, request: signed(value.replace('v1=', 'v2=')) }
  yield { name: 'a year later', valid: true, request: basic, now: 1794787700 + 365 * 86_400 }
}
