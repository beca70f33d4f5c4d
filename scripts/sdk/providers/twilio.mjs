import twilio from 'twilio'
import { installed } from '../frame.mjs'

export const sdk = installed('twilio')
export const recorded = 'elsewhere'
export const secret = '0123456789abcdef0123456789abcdef'
export const tolerance = null
export const signedBy = 'sdk'
export const signsUrl = true
export const contentType = 'application/x-www-form-urlencoded'

export const sample = ({ id }) => new URLSearchParams({ MessageSid: id, From: '+15551230000', Body: 'hello' }).toString()

/** The form as an object; what comes several times is a list. */
function fields(body) {
  const found = {}
  for (const [name, value] of new URLSearchParams(body.toString())) {
    found[name] = name in found ? [found[name], value].flat() : value
  }
  return found
}

export function sign({ body, url, secret }) {
  return { 'X-Twilio-Signature': twilio.getExpectedTwilioSignature(secret, url, fields(body)) }
}

export function verify({ headers, body, url }, { secret }) {
  const signature = headers['x-twilio-signature']
  if (new URL(url).searchParams.has('bodySHA256')) return twilio.validateRequestWithBody(secret, signature, url, body.toString())
  return twilio.validateRequest(secret, signature, url, fields(body))
}
