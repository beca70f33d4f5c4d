import { validateSignature } from '@line/bot-sdk'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@line/bot-sdk')
export const recorded = 'elsewhere'
export const secret = '0123456789abcdef0123456789abcdef'
export const tolerance = null

export function sign({ body, secret }) {
  return { 'x-line-signature': hmac('sha256', secret, body, 'base64') }
}

export function verify({ headers, body }, { secret }) {
  return validateSignature(body, secret, headers['x-line-signature'])
}
