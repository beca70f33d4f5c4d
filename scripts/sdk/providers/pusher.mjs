import Pusher from 'pusher'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('pusher')
export const recorded = 'elsewhere'
export const secret = '0123456789abcdef0123'
export const keyId = '278d425bdf160c739803'
export const tolerance = null

export const sample = ({ now }) => JSON.stringify({ time_ms: now * 1000, events: [{ name: 'channel_occupied', channel: 'test' }] })

export function sign({ body, secret, keyId }) {
  return { 'X-Pusher-Key': keyId, 'X-Pusher-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret, keyId = headers['x-pusher-key'] }) {
  const pusher = new Pusher({ appId: '1', key: keyId, secret, cluster: 'eu' })
  return pusher.webhook({ headers, rawBody: body.toString() }).isValid()
}
