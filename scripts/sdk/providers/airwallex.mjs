import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('airwallex')

export const { sdk, verify } = judge
export const kind = 'source'
export const secret = 'whsec_airwallex0123456789abcdef'
export const otherSecret = 'whsec_airwallex-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'x-signature', encoding: 'hex' }
export const timestamp = { header: 'x-timestamp', unit: 'ms' }

export const sample = ({ id, now }) =>
  JSON.stringify({ id, name: 'payment_intent.succeeded', account_id: 'acct_1', data: { object: { id: 'int_1' } }, created_at: new Date(now * 1000).toISOString() })

export function sign({ body, now, secret }) {
  const at = `${now * 1000}`
  return { 'x-timestamp': at, 'x-signature': hmac('sha256', secret, [at, body]) }
}
