import { Webhook } from 'lettermint'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('lettermint')
export const secret = 'whsec_lettermint0123456789abcdef'
export const otherSecret = 'whsec_lettermint-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'X-Lettermint-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${/v1=.*/.exec(b)[0]}` }
export const timestamp = { header: 'X-Lettermint-Signature', pattern: /t=([^,]*)/, unit: 's' }
export const leftOut = { 'empty body': 'the SDK wants a body', 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id, now }) => JSON.stringify({ id, event: 'message.delivered', timestamp: new Date(now * 1000).toISOString(), data: { message_id: 'message_1' } })

export function sign({ body, now, secret }) {
  return { 'X-Lettermint-Delivery': `${now}`, 'X-Lettermint-Signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  new Webhook(secret).verifyHeaders(headers, body)
  return true
}
