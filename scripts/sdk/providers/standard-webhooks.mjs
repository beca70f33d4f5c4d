import { Webhook } from 'standardwebhooks'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('standardwebhooks')
export const recorded = 'elsewhere'
export const secret = 'whsec_c3RhbmRhcmQtc2VjcmV0LTAxMjM0NTY3ODlhYmM='
export const { tolerance, sign } = standard()

export function verify({ headers, body }, { secret }) {
  new Webhook(secret).verify(body.toString(), headers)
  return true
}
