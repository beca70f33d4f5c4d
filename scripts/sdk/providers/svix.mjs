import { Webhook } from 'svix'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('svix')
export const recorded = 'elsewhere'
export const secret = 'whsec_c3ZpeC1zZWNyZXQtMDEyMzQ1Njc4OWFiY2RlZmc='
export const { tolerance, sign } = standard('svix')

export function verify({ headers, body }, { secret }) {
  new Webhook(secret).verify(body.toString(), headers)
  return true
}
