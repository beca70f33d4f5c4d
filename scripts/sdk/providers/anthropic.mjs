import Anthropic from '@anthropic-ai/sdk'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@anthropic-ai/sdk')
export const secret = 'whsec_YW50aHJvcGljLXNlY3JldC0wMTIzNDU2Nzg5YWJj'
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard()
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

const client = new Anthropic({ apiKey: 'unused' })

export function verify({ headers, body }, { secret }) {
  client.beta.webhooks.unwrap(body.toString(), { headers, key: secret })
  return true
}
