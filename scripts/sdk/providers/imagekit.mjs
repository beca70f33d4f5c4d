import ImageKit from '@imagekit/nodejs'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@imagekit/nodejs')
// Standard Webhooks, but the key is the whole secret as it is shown, `whsec_` included: nothing is decoded.
export const secret = 'whsec_imagekit0123456789'
export const otherSecret = 'whsec_somebodyelse012345'
const scheme = standard('webhook', (secret) => secret)
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = scheme
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

const client = new ImageKit({ privateKey: 'unused' })

export function verify({ headers, body }, { secret }) {
  client.webhooks.unwrap(body.toString(), { headers, key: secret })
  return true
}
