import { documented } from '../documented.mjs'
import { hmac } from '../frame.mjs'

export const secret = 'wsk_revolut0123456789abcdefghijklmn'
export const otherSecret = 'wsk_revolut-of-somebody-else-012345'
export const tolerance = 300
export const signature = { header: 'Revolut-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${b}` }
export const timestamp = { header: 'Revolut-Request-Timestamp', unit: 'ms' }

export const sample = ({ id, now }) => JSON.stringify({ event: 'ORDER_COMPLETED', order_id: id, merchant_order_ext_ref: 'Test #1', timestamp: new Date(now * 1000).toISOString() })

export function sign({ body, now, secret, at = `${now * 1000}` }) {
  return { 'Revolut-Request-Timestamp': at, 'Revolut-Signature': `v1=${hmac('sha256', secret, [`v1.${at}.`, body])}` }
}

export const { sdk, kind, cases } = documented(
  'https://developer.revolut.com/docs/guides/manage-accounts/webhooks/verify-the-payload-signature',
  sign,
  ['Revolut-Request-Timestamp', 'Revolut-Signature'],
  [
    {
      secret: 'wsk_r59a4HfWVAKycbCaNO1RvgCJec02gRd8',
      now: 1683650203,
      at: '1683650202360',
      body: '{"data":{"id":"645a7696-22f3-aa47-9c74-cbae0449cc46","new_state":"completed","old_state":"pending","request_id":"app_charges-9f5d5eb3-1e06-46c5-b1c0-3914763e0bcb"},"event":"TransactionStateChanged","timestamp":"2023-05-09T16:36:38.028960Z"}',
      headers: { 'Revolut-Request-Timestamp': '1683650202360', 'Revolut-Signature': 'v1=bca326fb378d0da7f7c490ad584a8106bab9723d8d9cdd0d50b4c5b3be3837c0' },
    },
  ],
)

export function verify({ headers, body }, { secret, now }) {
  const at = headers['revolut-request-timestamp']
  if (!/^\d+$/.test(at) || Math.abs(Number(at) / 1000 - now) > tolerance) return false
  return headers['revolut-signature'].split(',').includes(sign({ body, secret, at })['Revolut-Signature'])
}
