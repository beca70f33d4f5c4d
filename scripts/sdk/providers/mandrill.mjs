import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('mandrill')

export const { sdk, verify } = judge
export const kind = 'source'
export const secret = 'mandrill-webhook-key-0123456789'
export const otherSecret = 'mandrill-webhook-key-of-somebody-else'
export const tolerance = null
export const contentType = 'application/x-www-form-urlencoded'
export const signature = { header: 'X-Mandrill-Signature', encoding: 'base64' }
export const signsUrl = true
export const ownBodies = true

const events = (id, now) => JSON.stringify([{ event: 'send', _id: id, ts: now, msg: { email: 'a@example.com', state: 'sent' } }])
export const sample = ({ id, now }) => new URLSearchParams({ mandrill_events: events(id, now) }).toString()

// The URL, then every field's name and value, sorted by name.
export function sign({ body, url, secret }) {
  const fields = [...new URLSearchParams(body.toString())].sort(([a], [b]) => (a < b ? -1 : 1))
  return { 'X-Mandrill-Signature': hmac('sha1', secret, [url, ...fields.flat()], 'base64') }
}

export async function* cases({ make, basic, oneByteChanged }) {
  yield { name: 'unicode', valid: true, request: await make({ body: new URLSearchParams({ mandrill_events: '[{"subject":"héllo — 日本語 🎉"}]' }).toString() }) }
  yield { name: 'two fields', valid: true, request: await make({ body: 'mandrill_events=%5B%5D&another=1' }) }
  yield { name: 'plus for space', valid: true, request: await make({ body: 'mandrill_events=%5B+%5D' }) }
  yield { name: 'one byte of the body changed', valid: false, request: { ...basic, body: oneByteChanged(basic.body) } }
  yield { name: 'field added', valid: false, request: { ...basic, body: Buffer.concat([basic.body, Buffer.from('&x=1')]) } }
  yield { name: 'body left out', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
}
