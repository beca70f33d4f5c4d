import { Signature } from '@hubspot/api-client'
import { installed } from '../frame.mjs'

export const sdk = installed('@hubspot/api-client')
export const recorded = 'elsewhere'
export const secret = '00000000-aaaa-bbbb-cccc-0123456789ab'
export const tolerance = null
export const signedBy = 'sdk'

export function sign({ body, secret }) {
  const value = Signature.getSignature('POST', 'v1', { clientSecret: secret, requestBody: body.toString() })
  return { 'X-HubSpot-Signature-Version': 'v1', 'X-HubSpot-Signature': value }
}

export function verify({ headers, body }, { secret }) {
  return Signature.isValid({ signature: headers['x-hubspot-signature'], clientSecret: secret, requestBody: body.toString(), signatureVersion: 'v1' })
}
