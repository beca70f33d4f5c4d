import { WebhookEventVerifier } from '@onfido/api'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@onfido/api')
export const secret = 'onfido-webhook-token-0123456789'
export const otherSecret = 'onfido-webhook-token-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-SHA2-Signature', encoding: 'hex' }
export const leftOut = {
  'signature in upper case': 'the SDK decodes hex of either case',
  'empty body': 'the SDK parses the body as JSON',
}

export const sample = ({ id, now }) =>
  JSON.stringify({
    payload: {
      resource_type: 'check',
      action: 'check.completed',
      object: { id, status: 'complete', completed_at_iso8601: new Date(now * 1000).toISOString(), href: 'https://api.eu.onfido.com/v3.6/checks/1' },
    },
  })

export function sign({ body, secret }) {
  return { 'X-SHA2-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  new WebhookEventVerifier(secret).readPayload(body, headers['x-sha2-signature'])
  return true
}
