import { WebflowClient } from 'webflow-api'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('webflow-api')
export const secret = 'webflow-client-secret-0123456789abcdef'
export const otherSecret = 'webflow-client-secret-of-somebody-else'
// The SDK compares no clock.
export const tolerance = null
export const signature = { header: 'x-webflow-signature', encoding: 'hex' }
export const timestamp = { header: 'x-webflow-timestamp', unit: 'ms' }

const client = new WebflowClient({ accessToken: 'unused' })

export const sample = ({ id }) => JSON.stringify({ triggerType: 'form_submission', payload: { id, name: 'Contact Us', siteId: 'site_1', data: { email: 'a@example.com' } } })

export function sign({ body, now, secret }) {
  const at = `${now * 1000}`
  return { 'x-webflow-timestamp': at, 'x-webflow-signature': hmac('sha256', secret, [`${at}:`, body]) }
}

export function verify({ headers, body }, { secret }) {
  return client.webhooks.verifySignature({ headers, body: body.toString(), secret })
}
