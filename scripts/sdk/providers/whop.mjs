import Whop from '@whop/sdk'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@whop/sdk')
// The SDK decodes its key from base64, and callers hand it btoa(secret): the key is the secret's characters, `ws_` included.
export const secret = 'ws_0123456789abcdef0123456789abcdef'
export const otherSecret = 'ws_of_somebody_else_0123456789abcd'
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard('webhook', (secret) => secret)
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

const client = new Whop({ apiKey: 'unused', appID: 'unused' })

export function verify({ headers, body }, { secret }) {
  client.webhooks.unwrap(body.toString(), { headers, key: btoa(secret) })
  return true
}
