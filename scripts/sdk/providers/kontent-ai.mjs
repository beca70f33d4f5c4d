import { signatureHelper } from '@kontent-ai/webhook-helper'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@kontent-ai/webhook-helper')
export const secret = 'kontent-webhook-secret-0123456789abcdef='
export const otherSecret = 'kontent-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Kontent-ai-Signature', encoding: 'base64' }

export const sample = ({ id }) =>
  JSON.stringify({ notifications: [{ data: { system: { id: 'item_1', name: 'On Roasts', codename: 'on_roasts' } }, message: { environment_id: 'environment_1', object_type: 'content_item', action: 'published', delivery_slot: 'published' }, id }] })

export function sign({ body, secret }) {
  return { 'X-Kontent-ai-Signature': hmac('sha256', secret, body, 'base64') }
}

export function verify({ headers, body }, { secret }) {
  return signatureHelper.isValidSignatureFromString(body.toString(), secret, headers['x-kontent-ai-signature'])
}
