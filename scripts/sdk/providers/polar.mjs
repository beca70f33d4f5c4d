import { SDKValidationError } from '@polar-sh/sdk/models/errors/sdkvalidationerror.js'
import { validateEvent } from '@polar-sh/sdk/webhooks'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@polar-sh/sdk')
export const recorded = 'elsewhere'
export const secret = 'polar webhook secret 0123456789'
export const { tolerance, sign } = standard('webhook', (secret) => secret)

/** Past the signature the SDK also wants an event that it knows; that it got so far is the answer. */
export function verify({ headers, body }, { secret }) {
  try {
    validateEvent(body.toString(), headers, secret)
  } catch (error) {
    return error instanceof SDKValidationError
  }
  return true
}
