import acuity from 'acuityscheduling'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('acuityscheduling')
export const secret = 'acuity-api-key-0123456789abcdef'
export const otherSecret = 'acuity-api-key-of-somebody-else'
export const tolerance = null
export const contentType = 'application/x-www-form-urlencoded'
export const signature = { header: 'X-Acuity-Signature', encoding: 'base64' }
export const ownBodies = true

export const sample = ({ id }) => `action=scheduled&id=${id}&calendarID=1&appointmentTypeID=2`

export function sign({ body, secret }) {
  return { 'X-Acuity-Signature': hmac('sha256', secret, body, 'base64') }
}

export function verify({ headers, body }, { secret }) {
  acuity.bodyParserVerify(secret)({ headers }, {}, body)
  return true
}

export async function* cases({ make, basic, oneByteChanged }) {
  yield { name: 'unicode', valid: true, request: await make({ body: 'action=changed&id=1&note=h%C3%A9llo+%E2%80%94' }) }
  yield { name: 'unicode unescaped', valid: true, request: await make({ body: 'action=changed&id=1&note=héllo — 日本語' }) }
  yield { name: 'one byte of the body changed', valid: false, request: { ...basic, body: oneByteChanged(basic.body) } }
  yield { name: 'fields in another order', valid: false, request: { ...basic, body: Buffer.from('id=evt_0001&action=scheduled&calendarID=1&appointmentTypeID=2') } }
  yield { name: 'body left out', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
}
