import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('castle')

export const { sdk, verify } = judge
export const secret = 'castle-api-secret-0123456789abcdef'
export const otherSecret = 'castle-api-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Castle-Signature', encoding: 'base64' }
export const leftOut = { 'empty body': 'the SDK wants a body' }

export const sample = ({ id, now }) =>
  JSON.stringify({ api_version: 'v1', app_id: '1', type: '$incident.confirmed', created_at: new Date(now * 1000).toISOString(), data: { id, user_id: 'user_1' } })

export function sign({ body, secret }) {
  return { 'X-Castle-Signature': hmac('sha256', secret, body, 'base64') }
}
