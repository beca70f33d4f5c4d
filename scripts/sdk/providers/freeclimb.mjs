import { createRequire } from 'node:module'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

const utils = createRequire(import.meta.url)('@freeclimb/sdk/src/utils.js')

export const sdk = installed('@freeclimb/sdk')
export const secret = 'sigsec_freeclimb0123456789abcdef'
export const otherSecret = 'sigsec_freeclimb-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'FreeClimb-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${/v1=.*/.exec(b)[0]}` }
export const timestamp = { header: 'FreeClimb-Signature', pattern: /t=([^,]*)/, unit: 's' }
export const leftOut = { ...aheadUnlimited, 'signature with a byte more': 'the SDK asks only whether the signature is contained' }

export const sample = ({ id }) => JSON.stringify({ requestType: 'inboundCall', accountId: 'AC1', callId: id, callStatus: 'ringing', direction: 'inbound' })

export function sign({ body, now, secret }) {
  return { 'FreeClimb-Signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  utils.verifyRequest(body.toString(), headers['freeclimb-signature'], secret)
  return true
}
