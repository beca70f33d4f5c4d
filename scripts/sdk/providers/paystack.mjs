import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('paystack')

export const { sdk, verify } = judge
export const kind = 'source'
export const secret = 'sk_test_paystack0123456789abcdef'
export const otherSecret = 'sk_test_paystack-of-somebody-else'
export const tolerance = null
export const signature = { header: 'x-paystack-signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ event: 'charge.success', data: { id: 302961, reference: id, amount: 2000, paid_at: new Date(now * 1000).toISOString(), currency: 'NGN' } })

export function sign({ body, secret }) {
  return { 'x-paystack-signature': hmac('sha512', secret, body) }
}
