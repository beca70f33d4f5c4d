import { WebhooksManager } from 'box-node-sdk/managers/webhooks'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('box-node-sdk')
export const secret = 'box-primary-signature-key-0123456789'
export const otherSecret = 'box-primary-signature-key-of-somebody-else'
export const tolerance = 600
export const signature = { header: 'BOX-SIGNATURE-PRIMARY', encoding: 'base64' }
export const timestamp = { header: 'BOX-DELIVERY-TIMESTAMP', unit: 'rfc3339' }
export const leftOut = { 'a little in the future': 'the SDK allows not a second ahead' }

export const sample = ({ id, now }) =>
  JSON.stringify({ type: 'webhook_event', id, created_at: new Date(now * 1000).toISOString(), trigger: 'FILE.UPLOADED', webhook: { id: '1', type: 'webhook' }, source: { id: '2', type: 'file' } })

export function sign({ body, now, secret, secondary, at = new Date(now * 1000).toISOString().replace('.000Z', '-00:00') }) {
  const headers = {
    'BOX-DELIVERY-ID': 'f96bb54b-ee16-4fc5-aa65-8c2d9e5b546f',
    'BOX-DELIVERY-TIMESTAMP': at,
    'BOX-SIGNATURE-ALGORITHM': 'HmacSHA256',
    'BOX-SIGNATURE-VERSION': '1',
    'BOX-SIGNATURE-PRIMARY': hmac('sha256', secret, [body, at], 'base64'),
  }
  if (secondary) headers['BOX-SIGNATURE-SECONDARY'] = hmac('sha256', secondary, [body, at], 'base64')
  return headers
}

export function verify({ headers, body }, { secret, additionalSecrets = [] }) {
  return WebhooksManager.validateMessage(body.toString(), headers, secret, { secondaryKey: additionalSecrets[0] })
}

export async function* cases({ make, basic, put }) {
  const keys = { additionalSecrets: ['box-secondary-signature-key-0123456789'] }
  const [second] = keys.additionalSecrets
  yield { name: 'both signatures right', valid: true, request: await make({ secondary: second }), keys }
  yield { name: 'only the secondary right', valid: true, request: await make({ secret: otherSecret, secondary: second }), keys }
  yield { name: 'neither right', valid: false, request: await make({ secret: otherSecret, secondary: otherSecret }), keys }
  yield { name: 'another signature version', valid: false, request: { ...basic, headers: put(basic.headers, 'BOX-SIGNATURE-VERSION', '2') } }
  yield { name: 'another signature algorithm', valid: false, request: { ...basic, headers: put(basic.headers, 'BOX-SIGNATURE-ALGORITHM', 'HmacSHA1') } }
}
