import Stripe from 'stripe'
import { installed } from '../frame.mjs'

export const sdk = installed('stripe')
export const recorded = 'elsewhere'
export const secret = 'whsec_0123456789abcdef0123456789abcdef'
export const tolerance = 300
export const signedBy = 'sdk'

const stripe = new Stripe('sk_test_unused')

export function sign({ body, now, secret }) {
  return { 'Stripe-Signature': stripe.webhooks.generateTestHeaderString({ payload: body.toString(), secret, timestamp: now }) }
}

export function verify({ headers, body }, { secret }) {
  stripe.webhooks.constructEvent(body, headers['stripe-signature'], secret)
  return true
}
