import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { validateV3Signature } = createRequire(import.meta.url)('plivo')

export const sdk = installed('plivo')
export const secret = 'plivo-auth-token-0123456789abcdef'
export const otherSecret = 'plivo-auth-token-of-somebody-else'
export const tolerance = null
export const contentType = 'application/x-www-form-urlencoded'
export const ownBodies = true
export const signature = { header: 'X-Plivo-Signature-V3', pattern: /^([^,]*)/, encoding: 'base64', several: (a, b) => `${a},${b}` }
export const signedHeaders = ['X-Plivo-Signature-V3-Nonce']

export const sample = ({ id }) => `CallUUID=${id}&From=14151234567&To=14157654321&Event=StartApp`

const sorted = (pairs, glue, between) =>
  [...pairs].sort(([a, x], [b, y]) => (a === b ? (x < y ? -1 : 1) : a < b ? -1 : 1)).map(([name, value]) => name + glue + value).join(between)

// The URL with its query sorted; a dot where there is a query and a form; the form's names and values, sorted; a dot; the nonce.
export function sign({ method, body, url, secret, nonce = '05429567804466091622' }) {
  const asked = new URL(url)
  const form = [...new URLSearchParams(body.toString())]
  const query = sorted(asked.searchParams, '=', '&')
  const posted = method === 'POST' && form.length > 0
  const base = `${asked.origin}${asked.pathname}` + (query || posted ? `?${query}` : '') + (query && posted ? '.' : '')
  const signed = base + (posted ? sorted(form, '', '') : '')
  return { 'X-Plivo-Signature-V3-Nonce': nonce, 'X-Plivo-Signature-V3': hmac('sha256', secret, `${signed}.${nonce}`, 'base64') }
}

export function verify({ method, url, headers, body }, { secret }) {
  const form = {}
  for (const [name, value] of new URLSearchParams(body.toString())) form[name] = name in form ? [form[name], value].flat() : value
  return validateV3Signature(method, url, headers['x-plivo-signature-v3-nonce'], secret, headers['x-plivo-signature-v3'], form)
}

export async function* cases({ make, basic, oneByteChanged }) {
  const plain = 'https://hooks.example.com/path'
  yield { name: 'url without a query', valid: true, request: await make({ url: plain }) }
  yield { name: 'query in another order', valid: true, request: await make({ url: `${plain}?b=2&a=1` }) }
  yield { name: 'get', valid: true, request: await make({ method: 'GET', body: '' }) }
  yield { name: 'get without a query', valid: true, request: await make({ method: 'GET', url: plain, body: '' }) }
  yield { name: 'post without a form', valid: true, request: await make({ body: '' }) }
  yield { name: 'a name twice', valid: true, request: await make({ body: 'To=2&To=1&From=3' }) }
  yield { name: 'one byte of the body changed', valid: false, request: { ...basic, body: oneByteChanged(basic.body) } }
  yield { name: 'field added', valid: false, request: { ...basic, body: Buffer.concat([basic.body, Buffer.from('&x=1')]) } }
  yield { name: 'query changed', valid: false, request: { ...basic, url: `${plain}?x=2` } }
  yield { name: 'query left out', valid: false, request: { ...basic, url: plain } }
  yield { name: 'path changed', valid: false, request: { ...basic, url: 'https://hooks.example.com/other?x=1' } }
}
