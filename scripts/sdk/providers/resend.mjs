import { Resend } from 'resend'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('resend')
export const secret = 'whsec_cmVzZW5kLXNlY3JldC0wMTIzNDU2Nzg5YWJjZGU='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign } = standard('svix')

const resend = new Resend('re_unused')

export const sample = ({ now }) =>
  JSON.stringify({ type: 'email.delivered', created_at: new Date(now * 1000).toISOString(), data: { email_id: '56761188-7520-42d8-8898-ff6fc54ce618', to: ['a@example.com'] } })

// The SDK is handed the three values; that they come as `svix-*` is from the documentation.
export function verify({ headers, body }, { secret }) {
  resend.webhooks.verify({
    payload: body.toString(),
    headers: { id: headers['svix-id'], timestamp: headers['svix-timestamp'], signature: headers['svix-signature'] },
    webhookSecret: secret,
  })
  return true
}

export async function* cases(tools) {
  yield* standard('svix').cases(tools)
  yield { name: 'secret without whsec_', valid: true, request: tools.basic, keys: { secret: secret.replace('whsec_', '') } }
}
