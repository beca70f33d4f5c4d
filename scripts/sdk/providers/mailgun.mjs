import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('mailgun')

export const { sdk, verify } = judge
export const kind = 'source'
export const secret = 'key-mailgun0123456789abcdef'
export const otherSecret = 'key-mailgun-of-somebody-else'
export const tolerance = null
// The signature is in the body, and the rest of the body is not signed.
export const ownBodies = true

const token = 'c9a0b1d2e3f405162738495a6b7c8d9eafb0c1d2e3f4051627'

export function sign({ now, id, secret, block = {}, event = 'delivered' }) {
  const signature = { token, timestamp: `${now}`, signature: hmac('sha256', secret, `${now}${token}`), ...block }
  const data = { event, id, timestamp: now + 0.25, recipient: 'a@example.com' }
  return { headers: {}, body: JSON.stringify({ signature, 'event-data': data }) }
}

export async function* cases({ make, NOW }) {
  const right = hmac('sha256', secret, `${NOW}${token}`)
  const changed = (signature) => make({ block: { signature } })
  yield { name: 'another event, same signature', valid: true, request: await make({ event: 'opened' }) }
  yield { name: 'unicode in the event', valid: true, request: await make({ event: 'héllo — 日本語' }) }
  yield { name: 'token changed', valid: false, request: await make({ block: { token: `${token.slice(0, -1)}8` } }) }
  yield { name: 'timestamp changed', valid: false, request: await make({ block: { timestamp: `${NOW + 1}` } }) }
  yield { name: 'signature cut short', valid: false, request: await changed(right.slice(0, -2)) }
  yield { name: 'last digit of the signature changed', valid: false, request: await changed(right.slice(0, -1) + (right.endsWith('0') ? '1' : '0')) }
  yield { name: 'signature empty', valid: false, request: await changed('') }
  yield { name: 'signature in upper case', valid: false, request: await changed(right.toUpperCase()) }
  yield { name: 'signature of the other key', valid: false, request: await make({ secret: otherSecret }) }
  yield { name: 'signature missing', valid: false, request: await make({ block: { signature: undefined } }) }
  yield { name: 'token missing', valid: false, request: await make({ block: { token: undefined } }) }
  yield { name: 'timestamp missing', valid: false, request: await make({ block: { timestamp: undefined } }) }
  const basic = await make()
  yield { name: 'body no JSON', valid: false, request: { ...basic, body: Buffer.from('signature') } }
  yield { name: 'body empty', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
}
