import Lithic from 'lithic'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('lithic')
export const secret = 'whsec_bGl0aGljLXNlY3JldC0wMTIzNDU2Nzg5YWJjZGU='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign } = standard()

const client = new Lithic({ apiKey: 'unused' })

export const sample = ({ id }) => JSON.stringify({ event_type: 'card_transaction.updated', token: id, status: 'PENDING', amount: 2000 })

export function verify({ headers, body }, { secret }) {
  client.webhooks.verifySignature(body.toString(), headers, secret)
  return true
}

export async function* cases(tools) {
  yield* standard().cases(tools)
  yield { name: 'secret without whsec_', valid: true, request: tools.basic, keys: { secret: secret.replace('whsec_', '') } }
}
