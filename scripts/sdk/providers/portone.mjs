import { Webhook } from '@portone/server-sdk'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@portone/server-sdk')
export const secret = 'whsec_cG9ydG9uZS1zZWNyZXQtMDEyMzQ1Njc4OWFiYw=='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard()
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

export const sample = ({ id, now }) =>
  JSON.stringify({ type: 'Transaction.Paid', timestamp: new Date(now * 1000).toISOString(), data: { storeId: 'store-1', paymentId: 'payment-1', transactionId: id } })

export async function verify({ headers, body }, { secret }) {
  await Webhook.verify(secret, body.toString(), headers)
  return true
}
