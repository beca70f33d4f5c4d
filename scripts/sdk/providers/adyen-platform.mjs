import adyen from '@adyen/api-library'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@adyen/api-library')
export const recorded = 'elsewhere'
export const secret = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056'
export const tolerance = null

const validator = new adyen.hmacValidator()

export function sign({ body, secret }) {
  return { HmacSignature: hmac('sha256', Buffer.from(secret, 'hex'), body, 'base64'), Protocol: 'HmacSHA256' }
}

export function verify({ headers, body }, { secret }) {
  return validator.validateHMACSignature(secret, headers.hmacsignature, body.toString())
}
