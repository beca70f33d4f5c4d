import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { verifyWebhookSignature } = createRequire(import.meta.url)('@hookdeck/sdk/webhooks/helpers')

export const sdk = installed('@hookdeck/sdk')
export const secret = 'hookdeck-signing-secret-0123456789'
export const otherSecret = 'hookdeck-signing-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Hookdeck-Signature', encoding: 'base64' }

export function sign({ body, id, secret }) {
  return { 'X-Hookdeck-EventID': id, 'X-Hookdeck-Attempt-Count': '1', 'X-Hookdeck-Signature': hmac('sha256', secret, body, 'base64') }
}

export async function verify({ headers, body }, { secret }) {
  return (await verifyWebhookSignature({ headers, rawBody: body.toString(), signingSecret: secret })).isValidSignature
}

export async function* cases({ basic, make, get, put }) {
  const other = await make({ secret: otherSecret })
  const second = (first, value) => put(put(basic.headers, 'X-Hookdeck-Signature', first), 'X-Hookdeck-Signature-2', value)
  const right = get(basic.headers, 'X-Hookdeck-Signature')
  const wrong = get(other.headers, 'X-Hookdeck-Signature')
  yield { name: 'second signature right', valid: true, request: { ...basic, headers: second(wrong, right) } }
  yield { name: 'second signature wrong, first right', valid: true, request: { ...basic, headers: second(right, wrong) } }
  yield { name: 'both signatures wrong', valid: false, request: { ...basic, headers: second(wrong, wrong) } }
}
