import { EventCallbackHelper, EventCallbackRequest } from '@dropbox/sign'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@dropbox/sign')
// The API key of the account, or of the app.
export const secret = '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
export const otherSecret = 'fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210'
// Two fields of the JSON are signed and no more: neither the rest of the body nor its age is looked at.
export const tolerance = null
export const ownBodies = true
const BOUNDARY = '------------------------0123456789abcdef'
export const contentType = `multipart/form-data; boundary=${BOUNDARY}`

export const sample = ({ now }) =>
  JSON.stringify({
    event: { event_type: 'signature_request_sent', event_time: `${now}`, event_hash: '', event_metadata: { related_signature_id: 's1', reported_for_account_id: 'a1', reported_for_app_id: null } },
    signature_request: { signature_request_id: 'r1', title: 'NDA' },
  })

const multipart = (json) => `--${BOUNDARY}\r\nContent-Disposition: form-data; name="json"\r\n\r\n${json}\r\n--${BOUNDARY}--\r\n`

/** The body given is the JSON; what is sent has it as a field of a form. */
export function sign({ body, secret }) {
  const data = JSON.parse(body)
  data.event.event_hash = hmac('sha256', secret, `${data.event.event_time}${data.event.event_type}`)
  return { headers: { 'User-Agent': 'Dropbox Sign API' }, body: multipart(JSON.stringify(data)) }
}

export async function verify({ headers, body }, { secret }) {
  const form = await new Response(body, { headers: { 'content-type': headers['content-type'] } }).formData()
  return EventCallbackHelper.isValid(secret, EventCallbackRequest.init(JSON.parse(form.get('json'))))
}

/** For sdk-check: a change of the time, which is signed. */
export const changed = (body) => Buffer.from(body.toString().replace(/("event_time"\s*:\s*"?)\d/, '$17'))

export async function* cases({ make, basic, text }) {
  const edited = (from, to) => {
    const before = basic.body.toString()
    if (!before.includes(from)) throw new Error(`${from} is not in the body`)
    return { ...basic, body: Buffer.from(before.replace(from, to)) }
  }
  const json = /\{.*\}/.exec(basic.body.toString())[0]
  const hash = JSON.parse(json).event.event_hash
  const wrapped = (body, type = contentType) => ({ ...basic, headers: { ...basic.headers, 'Content-Type': type }, body: Buffer.from(body) })
  const withFile = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n{"event":{}}\r\n`

  yield { name: 'another type of event', valid: true, request: await make({ body: text().replace('request_sent', 'request_all_signed') }) }
  yield { name: 'unicode', valid: true, request: await make({ body: text().replace('NDA', 'héllo — 日本語 🎉') }) }
  yield { name: 'json pretty-printed', valid: true, request: edited(json, JSON.stringify(JSON.parse(json), null, 2)) }
  yield { name: 'json with escapes', valid: true, request: edited('signature_request_sent', 'signature\\u005frequest_sent') }
  yield { name: 'large', valid: true, request: await make({ body: text().replace('NDA', 'hookonce '.repeat(1000)) }) }
  yield { name: 'boundary in quotes', valid: true, request: wrapped(basic.body, `multipart/form-data; boundary="${BOUNDARY}"`) }
  yield { name: 'another boundary', valid: true, request: wrapped(basic.body.toString().replaceAll(BOUNDARY, 'X'), 'multipart/form-data; boundary=X') }
  yield { name: 'type of the field given', valid: true, request: edited('name="json"', 'name="json"\r\nContent-Type: application/json') }
  yield { name: 'another field before it', valid: true, request: wrapped(withFile + basic.body) }
  yield { name: 'what is not signed changed', valid: true, request: edited('"title":"NDA"', '"title":"DNA"') }
  yield { name: 'app callback', valid: true, request: await make({ body: text().replace('"reported_for_app_id":null', '"reported_for_app_id":"app1"') }) }

  yield { name: 'event_time changed', valid: false, request: edited('"event_time":"1794787700"', '"event_time":"1794787701"') }
  yield { name: 'event_type changed', valid: false, request: edited('signature_request_sent', 'signature_request_signed') }
  yield { name: 'event_time missing', valid: false, request: edited('"event_time":"1794787700",', '') }
  yield { name: 'event_type missing', valid: false, request: edited('"event_type":"signature_request_sent",', '') }
  yield { name: 'event_hash missing', valid: false, request: edited(`"event_hash":"${hash}",`, '') }
  yield { name: 'event_hash empty', valid: false, request: edited(hash, '') }
  yield { name: 'event_hash cut short', valid: false, request: edited(hash, hash.slice(0, -2)) }
  yield { name: 'event_hash with a digit changed', valid: false, request: edited(hash, (hash[0] === '0' ? '1' : '0') + hash.slice(1)) }
  yield { name: 'event_hash in upper case', valid: false, request: edited(hash, hash.toUpperCase()) }
  yield { name: 'event_hash in base64', valid: false, request: edited(hash, Buffer.from(hash, 'hex').toString('base64')) }
  yield { name: 'signed with another key', valid: false, request: await make({ secret: otherSecret }) }
  yield { name: 'no event', valid: false, request: edited(json, '{}') }
  yield { name: 'no field called json', valid: false, request: edited('name="json"', 'name="other"') }
  yield { name: 'json as the whole body', valid: false, request: wrapped(json) }
  yield { name: 'empty body', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
  yield { name: 'boundary of another form', valid: false, request: wrapped(basic.body, 'multipart/form-data; boundary=other') }
}
