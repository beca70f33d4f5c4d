import { WebhooksHelper } from 'square'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('square')
export const secret = 'square-signature-key-0123456789'
export const otherSecret = 'square-signature-key-of-somebody-else'
export const tolerance = null
export const signsUrl = true
export const signature = { header: 'x-square-hmacsha256-signature', encoding: 'base64' }

export const sample = ({ id, now }) =>
  JSON.stringify({ merchant_id: 'M1', type: 'payment.updated', event_id: id, created_at: new Date(now * 1000).toISOString(), data: { type: 'payment', id: 'p1', object: {} } })

export function sign({ body, url, secret }) {
  return { 'x-square-hmacsha256-signature': hmac('sha256', secret, [url, body], 'base64') }
}

export function verify({ headers, body, url }, { secret }) {
  return WebhooksHelper.verifySignature({
    requestBody: body.toString(),
    signatureHeader: headers['x-square-hmacsha256-signature'],
    signatureKey: secret,
    notificationUrl: url,
  })
}

export async function* cases({ make, basic }) {
  yield { name: 'url with a port', valid: true, request: await make({ url: 'https://hooks.example.com:8443/path' }) }
  yield { name: 'port left out', valid: false, request: { ...(await make({ url: 'https://hooks.example.com:8443/path' })), url: 'https://hooks.example.com/path' } }
  yield { name: 'url without a path', valid: true, request: await make({ url: 'https://hooks.example.com/' }) }
  yield { name: 'scheme changed', valid: false, request: { ...basic, url: basic.url.replace('https:', 'http:') } }
}
