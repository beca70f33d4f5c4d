import { CFEnvironment, Cashfree } from 'cashfree-pg'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('cashfree-pg')
export const secret = 'cfsk_ma_test_0123456789abcdef'
export const otherSecret = 'cfsk_ma_test_of_somebody_else'
export const tolerance = null
export const signature = { header: 'x-webhook-signature', encoding: 'base64' }
export const timestamp = { header: 'x-webhook-timestamp', unit: 'ms' }
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

export const sample = ({ id, now }) =>
  JSON.stringify({ data: { order: { order_id: id, order_amount: 2 }, payment: { cf_payment_id: '1453002795', payment_status: 'SUCCESS' } }, event_time: new Date(now * 1000).toISOString(), type: 'PAYMENT_SUCCESS_WEBHOOK' })

export function sign({ body, now, secret }) {
  const at = `${now * 1000}`
  return { 'x-webhook-version': '2023-08-01', 'x-webhook-timestamp': at, 'x-webhook-signature': hmac('sha256', secret, [at, body], 'base64') }
}

export function verify({ headers, body }, { secret }) {
  const client = new Cashfree(CFEnvironment.SANDBOX, 'unused', secret)
  return Boolean(client.PGVerifyWebhookSignature(headers['x-webhook-signature'], body.toString(), headers['x-webhook-timestamp']))
}
