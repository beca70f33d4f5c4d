import { WebhookSignature } from 'fintoc'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('fintoc')
export const secret = 'whsec_fintoc0123456789abcdef'
export const otherSecret = 'whsec_fintoc-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'Fintoc-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=' }
export const timestamp = { header: 'Fintoc-Signature', pattern: /t=([^,]*)/, unit: 's' }

export const sample = ({ id, now }) =>
  JSON.stringify({ id, type: 'payment_intent.succeeded', mode: 'test', created_at: new Date(now * 1000).toISOString(), object: 'event', data: { id: 'pi_1', object: 'payment_intent' } })

export function sign({ body, now, secret }) {
  return { 'Fintoc-Signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  WebhookSignature.verifyHeader(body, headers['fintoc-signature'], secret)
  return true
}
