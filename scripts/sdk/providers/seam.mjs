import { SeamWebhook } from '@seamapi/webhook'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@seamapi/webhook')
export const secret = 'whsec_c2VhbS1zZWNyZXQtMDEyMzQ1Njc4OWFiY2RlZg=='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard('svix')
export const leftOut = {
  'empty body': 'the SDK parses the body as JSON',
  'minimal body': 'the SDK wants a Seam event',
}

export const sample = ({ id, now }) =>
  JSON.stringify({ event_id: id, event_type: 'device.connected', device_id: 'device_1', created_at: new Date(now * 1000).toISOString() })

export function verify({ headers, body }, { secret }) {
  new SeamWebhook(secret).verify(body.toString(), headers)
  return true
}
