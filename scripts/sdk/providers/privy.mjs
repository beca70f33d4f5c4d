import { PrivyClient } from '@privy-io/node'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@privy-io/node')
export const secret = 'whsec_cHJpdnktc2VjcmV0LTAxMjM0NTY3ODlhYmNkZWY='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard('svix')
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

const client = new PrivyClient({ appId: 'unused', appSecret: 'unused' })

export function verify({ headers, body }, { secret }) {
  client.webhooks().verify({ payload: body.toString(), headers, signing_secret: secret })
  return true
}
