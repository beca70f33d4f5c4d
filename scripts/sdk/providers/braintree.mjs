import braintree from 'braintree'
import { createHash } from 'node:crypto'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('braintree')
export const secret = 'braintree-private-key-0123456789'
export const otherSecret = 'braintree-private-key-of-somebody-else'
export const keyId = 'braintree-public-key'
export const tolerance = null
export const contentType = 'application/x-www-form-urlencoded'
// The signature is a field of the form beside what it signs.
export const ownBodies = true

const notification = (id) =>
  Buffer.from(`<notification><kind>check</kind><timestamp type="datetime">2026-11-16T00:00:00Z</timestamp><subject><check type="boolean">true</check><id>${id}</id></subject></notification>`).toString('base64')

// The key is the SHA-1 of the private key.
const mac = (secret, payload) => hmac('sha1', createHash('sha1').update(secret).digest(), payload)

export function sign({ id, secret, keyId, payload = notification(id), pairs = [`${keyId}|${mac(secret, payload)}`] }) {
  return { headers: {}, body: new URLSearchParams({ bt_signature: pairs.join('&'), bt_payload: payload }).toString() }
}

export async function verify({ body }, { secret, keyId }) {
  const gateway = new braintree.BraintreeGateway({ environment: braintree.Environment.Sandbox, merchantId: 'unused', publicKey: keyId, privateKey: secret })
  const form = new URLSearchParams(body.toString())
  await gateway.webhookNotification.parse(form.get('bt_signature'), form.get('bt_payload'))
  return true
}

export async function* cases({ make }) {
  const payload = notification('evt_0001')
  const right = mac(secret, payload)
  const pair = (value, key = keyId) => `${key}|${value}`
  const pairs = (...pairs) => make({ payload, pairs })
  const folded = `${notification('evt_0002').replace(/(.{60})/g, '$1\n')}\n`
  yield { name: 'payload in lines', valid: true, request: await make({ payload: folded }) }
  yield { name: 'payload of another signature', valid: false, request: await make({ payload: notification('evt_0003'), pairs: [pair(right)] }) }
  yield { name: 'signed with another key', valid: false, request: await make({ secret: otherSecret }) }
  yield { name: 'two pairs, the first ours', valid: true, request: await pairs(pair(right), pair(right, 'another-public-key')) }
  yield { name: 'two pairs, the second ours', valid: true, request: await pairs(pair('0'.repeat(40), 'another-public-key'), pair(right)) }
  yield { name: 'only the pair of another key', valid: false, request: await pairs(pair(right, 'another-public-key')) }
  yield { name: 'last digit of the signature changed', valid: false, request: await pairs(pair(right.slice(0, -1) + (right.endsWith('0') ? '1' : '0'))) }
  yield { name: 'signature cut short', valid: false, request: await pairs(pair(right.slice(0, -2))) }
  yield { name: 'signature in upper case', valid: false, request: await pairs(pair(right.toUpperCase())) }
  yield { name: 'signature empty', valid: false, request: await pairs(pair('')) }
  yield { name: 'no pair', valid: false, request: await pairs() }
  yield { name: 'no public key', valid: false, request: await pairs(right) }
  yield { name: 'key not hashed', valid: false, request: await pairs(pair(hmac('sha1', secret, payload))) }
  const basic = await make()
  yield { name: 'payload left out', valid: false, request: { ...basic, body: Buffer.from(basic.body.toString().replace(/&bt_payload=.*/, '')) } }
  yield { name: 'body empty', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
}
