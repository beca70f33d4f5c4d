import { Signature } from '@hubspot/api-client'
import { aheadUnlimited, installed } from '../frame.mjs'

export const sdk = installed('@hubspot/api-client')
export const secret = '00000000-aaaa-bbbb-cccc-0123456789ab'
export const otherSecret = '11111111-aaaa-bbbb-cccc-0123456789ab'
export const tolerance = 300
export const signedBy = 'sdk'
export const signsUrl = true
export const signsMethod = true
export const signature = { header: 'X-HubSpot-Signature-v3', encoding: 'base64' }
export const timestamp = { header: 'X-HubSpot-Request-Timestamp', unit: 'ms' }
export const leftOut = aheadUnlimited

export const sample = ({ now }) =>
  JSON.stringify([{ eventId: 1, subscriptionId: 25, portalId: 33, occurredAt: now * 1000, subscriptionType: 'contact.creation', attemptNumber: 0, objectId: 123 }])

export function sign({ body, url, method, now, secret }) {
  const stamp = now * 1000
  const value = Signature.getSignature(method, 'v3', { clientSecret: secret, requestBody: body.toString(), url, timestamp: stamp })
  return { 'X-HubSpot-Request-Timestamp': `${stamp}`, 'X-HubSpot-Signature-v3': value }
}

export function verify({ headers, body, url, method }, { secret }) {
  return Signature.isValid({
    signature: headers['x-hubspot-signature-v3'],
    clientSecret: secret,
    requestBody: body.toString(),
    url,
    method,
    timestamp: Number(headers['x-hubspot-request-timestamp']),
    signatureVersion: 'v3',
  })
}

// Left out: URLs with escapes. HubSpot decodes some of them before it signs; the SDK leaves that to its caller.
export async function* cases({ make, basic }) {
  yield { name: 'url with a port', valid: true, request: await make({ url: 'https://hooks.example.com:8443/path' }) }
  yield { name: 'get without a body', valid: true, request: await make({ method: 'GET', body: '' }) }
  yield { name: 'scheme changed', valid: false, request: { ...basic, url: basic.url.replace('https:', 'http:') } }
}
