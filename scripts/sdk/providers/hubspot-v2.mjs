import { Signature } from '@hubspot/api-client'
import { installed } from '../frame.mjs'

export const sdk = installed('@hubspot/api-client')
export const recorded = 'elsewhere'
export const secret = '00000000-aaaa-bbbb-cccc-0123456789ab'
export const tolerance = null
export const signedBy = 'sdk'
export const signsUrl = true

export function sign({ body, url, method, secret }) {
  const value = Signature.getSignature(method, 'v2', { clientSecret: secret, requestBody: body.toString(), url })
  return { 'X-HubSpot-Signature-Version': 'v2', 'X-HubSpot-Signature': value }
}

export function verify({ headers, body, url, method }, { secret }) {
  return Signature.isValid({ signature: headers['x-hubspot-signature'], clientSecret: secret, requestBody: body.toString(), url, method, signatureVersion: 'v2' })
}
