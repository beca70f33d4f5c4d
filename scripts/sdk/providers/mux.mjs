import Mux from '@mux/mux-node'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

export const sdk = installed('@mux/mux-node')
export const secret = 'mux-signing-secret-0123456789abcdef'
export const otherSecret = 'mux-signing-secret-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'Mux-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${/v1=.*/.exec(b)[0]}` }
export const timestamp = { header: 'Mux-Signature', pattern: /t=([^,]*)/, unit: 's' }

export const leftOut = aheadUnlimited

const mux = new Mux({ tokenId: 'unused', tokenSecret: 'unused' })

export function sign({ body, now, secret }) {
  return { 'Mux-Signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export async function verify({ headers, body }, { secret }) {
  await mux.webhooks.verifySignature(body.toString(), headers, secret)
  return true
}
