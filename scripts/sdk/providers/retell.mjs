import Retell from 'retell-sdk'
import { installed } from '../frame.mjs'

export const sdk = installed('retell-sdk')
export const secret = 'key_0123456789abcdef0123456789ab'
export const otherSecret = 'key_of_somebody_else'
export const tolerance = 300
export const signedBy = 'sdk'
export const signature = { header: 'X-Retell-Signature', pattern: /d=([^,]*)/, encoding: 'hex', prefix: 'd=' }
export const timestamp = { header: 'X-Retell-Signature', pattern: /v=([^,]*)/, unit: 'ms' }
export const leftOut = { 'signature in upper case': 'the SDK takes hex of either case' }

export const sample = ({ id, now }) => JSON.stringify({ event: 'call_ended', call: { call_id: id, start_timestamp: now * 1000, call_status: 'ended' } })

export async function sign({ body, secret }) {
  return { 'X-Retell-Signature': await Retell.sign(body.toString(), secret) }
}

export function verify({ headers, body }, { secret }) {
  return Retell.verify(body.toString(), secret, headers['x-retell-signature'])
}

export async function* cases({ basic, get, put }) {
  const value = get(basic.headers, 'X-Retell-Signature')
  const signed = (text) => ({ ...basic, headers: put(basic.headers, 'X-Retell-Signature', text) })
  yield { name: 'no timestamp', valid: false, request: signed(value.replace(/^v=\d+,/, '')) }
  yield { name: 'the digest alone', valid: false, request: signed(value.replace(/^.*d=/, '')) }
}
