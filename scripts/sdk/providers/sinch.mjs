// The package's entry wants a file that is not in it; the helper stands alone.
import helper from '../node_modules/@sinch/sdk-client/dist/utils/authorization.helper.js'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@sinch/sdk-client')
export const secret = 'sinch-conversation-secret-0123456789'
export const otherSecret = 'sinch-conversation-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'x-sinch-webhook-signature', encoding: 'base64' }
export const timestamp = { header: 'x-sinch-webhook-signature-timestamp', unit: 's' }
export const signedHeaders = ['x-sinch-webhook-signature-nonce']

export const sample = ({ id, now }) =>
  JSON.stringify({ app_id: 'app_1', accepted_time: new Date(now * 1000).toISOString(), event_time: new Date(now * 1000).toISOString(), project_id: 'project_1', message: { id, direction: 'TO_APP' } })

export function sign({ body, now, secret, nonce = '01HJA8B2ZG9Y7QH8PVX0KZJ5RD' }) {
  return {
    'x-sinch-webhook-signature-timestamp': `${now}`,
    'x-sinch-webhook-signature-nonce': nonce,
    'x-sinch-webhook-signature-algorithm': 'HmacSHA256',
    'x-sinch-webhook-signature': hmac('sha256', secret, [body, `.${nonce}.${now}`], 'base64'),
  }
}

export function verify({ headers, body }, { secret }) {
  return helper.validateWebhookSignature(secret, headers, body.toString())
}
