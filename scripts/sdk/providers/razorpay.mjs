import Razorpay from 'razorpay'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('razorpay')
export const secret = 'razorpay webhook secret 0123456789'
export const otherSecret = 'razorpay webhook secret of somebody else'
export const tolerance = null
export const signature = { header: 'X-Razorpay-Signature', encoding: 'hex' }

export const sample = ({ now }) =>
  JSON.stringify({ entity: 'event', account_id: 'acc_1', event: 'payment.captured', contains: ['payment'], payload: { payment: { entity: { id: 'pay_1', amount: 2000 } } }, created_at: now })

export function sign({ body, id, secret }) {
  return { 'X-Razorpay-Event-Id': id, 'X-Razorpay-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return Razorpay.validateWebhookSignature(body.toString(), headers['x-razorpay-signature'], secret)
}
