import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('quickbooks')

export const { sdk, verify } = judge
export const kind = 'source'
export const secret = 'quickbooks-verifier-token-0123456789'
export const otherSecret = 'quickbooks-verifier-token-of-somebody-else'
export const tolerance = null
export const signature = { header: 'intuit-signature', encoding: 'base64' }

export const sample = ({ id, now }) =>
  JSON.stringify({ eventNotifications: [{ realmId: '1', dataChangeEvent: { entities: [{ name: 'Customer', id, operation: 'Create', lastUpdated: new Date(now * 1000).toISOString() }] } }] })

export function sign({ body, secret }) {
  return { 'intuit-signature': hmac('sha256', secret, body, 'base64') }
}
