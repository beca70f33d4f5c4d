// Stripe's webhooks in Express: the raw body, the SDK's own check, one row for each event.
import { appendFile } from 'node:fs/promises'
import express from 'express'
import Stripe from 'stripe'

const stripe = new Stripe('sk_test_unused')
const app = express()

app.post('/webhooks/stripe', express.raw({ type: 'application/json' }), async (request, response) => {
  let event
  try {
    event = stripe.webhooks.constructEvent(request.body, request.headers['stripe-signature'], process.env.STRIPE_WEBHOOK_SECRET)
  } catch (error) {
    response.status(400).send(`Webhook Error: ${error.message}`)
    return
  }
  switch (event.type) {
    case 'invoice.paid':
      await appendFile(process.env.DATABASE, `${event.id} ${event.type}\n`)
      break
    default:
      console.log(`Unhandled event type ${event.type}`)
  }
  response.json({ received: true })
})

app.listen(Number(process.env.PORT), '127.0.0.1')
