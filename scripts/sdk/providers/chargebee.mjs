import { basicAuthValidator } from 'chargebee'
import { installed } from '../frame.mjs'

export const sdk = installed('chargebee')
// User and password as Chargebee was told them.
export const secret = 'hookonce:chargebee-password-0123456789'
export const otherSecret = 'hookonce:chargebee-password-of-somebody-else'
export const tolerance = null
// Basic authentication, not a signature: the body may be anything.
export const ownBodies = true

export const sample = ({ id, now }) => JSON.stringify({ id, occurred_at: now, source: 'api', object: 'event', api_version: 'v2', event_type: 'customer_created', webhook_status: 'not_configured', content: { customer: { id: 'customer_1' } } })

const basicly = (text) => `Basic ${Buffer.from(text).toString('base64')}`

export function sign({ secret }) {
  return { Authorization: basicly(secret) }
}

export async function verify({ headers }, { secret }) {
  await basicAuthValidator((user, password) => `${user}:${password}` === secret)(headers)
  return true
}

export async function* cases({ make, basic, put }) {
  const said = (value) => ({ ...basic, headers: put(basic.headers, 'Authorization', value) })
  yield { name: 'another body', valid: true, request: { ...basic, body: Buffer.from('{}') } }
  yield { name: 'another password', valid: false, request: await make({ secret: otherSecret }) }
  yield { name: 'another user', valid: false, request: said(basicly(secret.replace('hookonce', 'hooktwice'))) }
  yield { name: 'password left out', valid: false, request: said(basicly('hookonce:')) }
  yield { name: 'no colon', valid: false, request: said(basicly('hookonce')) }
  yield { name: 'not encoded', valid: false, request: said(`Basic ${secret}`) }
  yield { name: 'bearer', valid: false, request: said(basicly(secret).replace('Basic', 'Bearer')) }
  yield { name: 'no scheme', valid: false, request: said(basicly(secret).replace('Basic ', '')) }
  yield { name: 'header empty', valid: false, request: said('') }
  yield { name: 'header missing', valid: false, request: said(undefined) }
}
