import Cronofy from 'cronofy'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('cronofy')
export const secret = 'CRN_cronofy-client-secret-0123456789'
export const otherSecret = 'CRN_cronofy-client-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Cronofy-HMAC-SHA256', pattern: /^([^,]*)/, encoding: 'base64', several: (a, b) => `${a},${b}` }
export const leftOut = { 'empty body': 'the SDK wants a body' }

export const sample = ({ now }) =>
  JSON.stringify({ notification: { type: 'change', changes_since: new Date(now * 1000).toISOString() }, channel: { channel_id: 'chn_1', callback_url: 'https://hooks.example.com/', filters: {} } })

export function sign({ body, secret }) {
  return { 'Cronofy-HMAC-SHA256': hmac('sha256', secret, body, 'base64') }
}

export function verify({ headers, body }, { secret }) {
  return new Cronofy({ client_secret: secret }).hmacValid({ hmac: headers['cronofy-hmac-sha256'], body: body.toString() })
}
