// The cases that every provider gets. A case says what a strict reader must answer (`valid`); the recorder asks the SDK
// and stops where the two differ, unless the provider file says in `leftOut` why the SDK may be laxer or stricter.
//
// What a provider file may tell of its scheme, so that the battery knows where to tamper:
//   signature     { header, pattern?, encoding, prefix?, several?(value, others) }   pattern's group is the signature itself
//   timestamp     { header, pattern?, unit: 's' | 'ms' | 'rfc3339' }
//   signedHeaders names of other headers that are signed
//   signsUrl, signsMethod   true where they are
//   otherSecret, otherPrivateKey   a key that is not the right one
//   sample({ id, now }), contentType   a plain body, as text, and its type
//   ownBodies     true where the cases with other bodies make no sense; `cases` has its own then
//   cases         an async generator of cases of its own, called with the tools below
// For record.mjs: signedBy ('sdk'), kind ('source'), recorded ('elsewhere', where the cases are not ours to write).
// For check.mjs: preset (where it is not the file's name), sendWords, changed(body) where not every byte is signed.
import { NOW, URL_CALLED, get, mapNames, put, sample, signed } from './frame.mjs'

const UNICODE = 'héllo — 日本語 🎉 مرحبا e\u0301 \u2028 <&>\'"\\'

/** Puts `change` on what the pattern's group (or the whole header) holds. */
function inHeader(headers, { header, pattern }, change) {
  const value = get(headers, header)
  const found = (pattern ?? /^(.*)$/).exec(value)
  if (!found) throw new Error(`${header}: ${value} does not look like ${pattern}`)
  const start = found.index + found[0].indexOf(found[1])
  return put(headers, header, value.slice(0, start) + change(found[1]) + value.slice(start + found[1].length))
}

const decoded = (text, encoding, change) => change(Buffer.from(text, encoding)).toString(encoding)

const flipped = (bytes, at = bytes.length >> 1) => {
  const copy = Buffer.from(bytes)
  copy[at] ^= 1
  return copy
}

/** The body with one letter or digit of its last value changed, so that JSON stays JSON. */
export function oneByteChanged(body) {
  const copy = Buffer.from(body)
  for (let at = copy.length - 1; at >= 0; at--) {
    const letter = String.fromCharCode(copy[at])
    if (/[0-9a-zA-Z]/.test(letter)) {
      copy[at] = letter === '1' ? 0x32 : 0x31
      return copy
    }
  }
  return Buffer.from('1')
}

const stamped = (unit, seconds) =>
  unit === 's' ? `${seconds}` : unit === 'ms' ? `${seconds * 1000}` : new Date(seconds * 1000).toISOString()

/** Every case of a provider: { name, valid, request, now?, keys? }. */
export async function* battery(provider) {
  const make = (given) => signed(provider, given)
  const text = (given = {}) => sample(provider, { id: 'evt_0001', now: NOW, ...given })
  const tools = { make, text, inHeader, decoded, flipped, oneByteChanged, get, put, NOW, URL_CALLED }
  const basic = await make()

  yield { name: 'basic', valid: true, request: basic }
  if (!provider.ownBodies) yield* bodies(make, text, basic)
  yield { name: 'header names in lower case', valid: true, request: { ...basic, headers: mapNames(basic.headers, (n) => n.toLowerCase()) } }
  yield { name: 'header names in upper case', valid: true, request: { ...basic, headers: mapNames(basic.headers, (n) => n.toUpperCase()) } }
  if (provider.signature) yield* signatures(provider, make, basic)
  if (provider.timestamp) yield* timestamps(provider, make, basic)
  for (const name of provider.signedHeaders ?? []) {
    yield { name: `${name} changed`, valid: false, request: { ...basic, headers: put(basic.headers, name, `${get(basic.headers, name)}0`) } }
    yield { name: `${name} missing`, valid: false, request: { ...basic, headers: put(basic.headers, name, undefined) } }
  }
  if (provider.signsUrl) yield* urls(make, basic)
  if (provider.signsMethod) {
    yield { name: 'method put', valid: true, request: await make({ method: 'PUT' }) }
    yield { name: 'method changed', valid: false, request: { ...basic, method: 'PUT' } }
  }
  if (provider.cases) yield* provider.cases({ ...tools, basic })
}

async function* bodies(make, text, basic) {
  const value = JSON.parse(text())
  const extended = Array.isArray(value) ? [{ ...value[0], note: UNICODE }] : { ...value, note: UNICODE }
  const pretty = JSON.stringify(value, null, 2)
  const minimal = Array.isArray(value) ? '[]' : '{}'
  yield { name: 'unicode', valid: true, request: await make({ body: JSON.stringify(extended) }) }
  yield { name: 'minimal body', valid: true, request: await make({ body: minimal }) }
  yield { name: 'empty body', valid: true, request: await make({ body: '' }) }
  yield { name: 'pretty-printed', valid: true, request: await make({ body: pretty }) }
  yield { name: 'pretty-printed with crlf', valid: true, request: await make({ body: pretty.replaceAll('\n', '\r\n') }) }
  yield { name: 'newline at the end', valid: true, request: await make({ body: `${text()}\n` }) }
  yield { name: 'escapes and odd numbers', valid: true, request: await make({ body: text().replace(/}(]?\s*)$/, ',"u":"https:\\/\\/x\\/\\u00e9\\ud83c\\udf89","n":[1.0,1e3,-0,12345678901234567890]}$1') }) }
  const large = { ...(Array.isArray(value) ? value[0] : value), padding: 'hookonce '.repeat(1100) }
  yield { name: 'large', valid: true, request: await make({ body: JSON.stringify(Array.isArray(value) ? [large] : large) }) }
  yield { name: 'one byte of the body changed', valid: false, request: { ...basic, body: oneByteChanged(basic.body) } }
  yield { name: 'body written anew', valid: false, request: { ...basic, body: Buffer.from(pretty) } }
  yield { name: 'newline put after the body', valid: false, request: { ...basic, body: Buffer.concat([basic.body, Buffer.from('\n')]) } }
  yield { name: 'body left out', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
}

async function* signatures(provider, make, basic) {
  const { signature } = provider
  const changed = (change) => ({ ...basic, headers: inHeader(basic.headers, signature, change) })
  const bytes = (change) => changed((value) => decoded(value, signature.encoding, change))
  const whole = (change) => ({ ...basic, headers: put(basic.headers, signature.header, change(get(basic.headers, signature.header))) })

  yield { name: 'first bit of the signature flipped', valid: false, request: bytes((b) => flipped(b, 0)) }
  yield { name: 'last byte of the signature flipped', valid: false, request: bytes((b) => flipped(b, b.length - 1)) }
  yield { name: 'signature cut short', valid: false, request: bytes((b) => b.subarray(0, b.length - 1)) }
  yield { name: 'signature with a byte more', valid: false, request: bytes((b) => Buffer.concat([b, Buffer.alloc(1)])) }
  yield { name: 'signature of zeros', valid: false, request: bytes((b) => Buffer.alloc(b.length)) }
  yield { name: 'signature empty', valid: false, request: changed(() => '') }
  yield { name: 'signature no encoding at all', valid: false, request: changed((value) => '!'.repeat(value.length)) }
  yield { name: 'signature of another delivery', valid: false, request: { ...basic, headers: put(basic.headers, signature.header, get((await make({ body: '{"id":"evt_0002"}' })).headers, signature.header)) } }
  yield { name: 'header empty', valid: false, request: whole(() => '') }
  yield { name: 'header missing', valid: false, request: whole(() => undefined) }
  if (signature.encoding === 'hex') {
    yield { name: 'signature in upper case', valid: false, request: changed((value) => value.toUpperCase()) }
    yield { name: 'signature in base64', valid: false, request: changed((value) => Buffer.from(value, 'hex').toString('base64')) }
  } else {
    yield { name: 'signature in hex', valid: false, request: changed((value) => Buffer.from(value, signature.encoding).toString('hex')) }
  }
  if (signature.prefix) {
    yield { name: 'prefix missing', valid: false, request: whole((value) => value.replace(signature.prefix, '')) }
    yield { name: 'another prefix', valid: false, request: whole((value) => value.replace(signature.prefix, `x${signature.prefix}`)) }
  }
  if (provider.otherSecret || provider.otherPrivateKey) {
    const other = await make({ secret: provider.otherSecret, privateKey: provider.otherPrivateKey })
    yield { name: 'signed with another key', valid: false, request: other }
    if (signature.several) {
      const both = (first, second) => ({
        ...basic,
        headers: put(basic.headers, signature.header, signature.several(get(first.headers, signature.header), get(second.headers, signature.header))),
      })
      yield { name: 'two signatures, the first right', valid: true, request: both(basic, other) }
      yield { name: 'two signatures, the second right', valid: true, request: both(other, basic) }
      yield { name: 'two signatures, both wrong', valid: false, request: both(other, other) }
    }
  }
}

async function* timestamps(provider, make, basic) {
  const { timestamp, tolerance } = provider
  const replaced = (value) => ({ ...basic, headers: inHeader(basic.headers, timestamp, () => value) })
  if (tolerance != null) {
    yield { name: 'old, within the tolerance', valid: true, request: basic, now: NOW + tolerance - 1 }
    yield { name: 'old, beyond the tolerance', valid: false, request: basic, now: NOW + tolerance + 2 }
    yield { name: 'a day old', valid: false, request: basic, now: NOW + 86_400 }
    yield { name: 'a little in the future', valid: true, request: basic, now: NOW - 10 }
    yield { name: 'in the future, beyond the tolerance', valid: false, request: basic, now: NOW - tolerance - 2 }
    yield { name: 'far in the future', valid: false, request: basic, now: NOW - 86_400 }
  }
  yield { name: 'timestamp replaced', valid: false, request: replaced(stamped(timestamp.unit, NOW + 1)) }
  yield { name: 'timestamp empty', valid: false, request: replaced('') }
  yield { name: 'timestamp no number', valid: false, request: replaced('yesterday') }
  if (!timestamp.pattern) {
    yield { name: 'timestamp missing', valid: false, request: { ...basic, headers: put(basic.headers, timestamp.header, undefined) } }
  }
}

async function* urls(make, basic) {
  const plain = 'https://hooks.example.com/path'
  yield { name: 'url without a query', valid: true, request: await make({ url: plain }) }
  yield { name: 'url with two parameters', valid: true, request: await make({ url: `${plain}?x=1&y=two` }) }
  yield { name: 'query changed', valid: false, request: { ...basic, url: `${plain}?x=2` } }
  yield { name: 'query left out', valid: false, request: { ...basic, url: plain } }
  yield { name: 'parameter added', valid: false, request: { ...basic, url: `${URL_CALLED}&y=2` } }
  yield { name: 'path changed', valid: false, request: { ...basic, url: 'https://hooks.example.com/other?x=1' } }
}
