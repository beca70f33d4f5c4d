import Metronome from '@metronome/sdk'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@metronome/sdk')
export const secret = 'metronome-webhook-secret-0123456789'
export const otherSecret = 'metronome-webhook-secret-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'Metronome-Webhook-Signature', encoding: 'hex' }
export const timestamp = { header: 'X-Metronome-Date', unit: 'rfc3339' }

const client = new Metronome({ bearerToken: 'unused' })

export const sample = ({ id, now }) =>
  JSON.stringify({ id, type: 'alerts.low_credit_balance_reached', properties: { customer_id: 'customer_1', timestamp: new Date(now * 1000).toISOString() } })

export function sign({ body, now, secret, at = new Date(now * 1000).toUTCString() }) {
  return { 'X-Metronome-Date': at, 'Metronome-Webhook-Signature': hmac('sha256', secret, [`${at}\n`, body]) }
}

export function verify({ headers, body }, { secret }) {
  client.webhooks.verifySignature(body.toString(), headers, secret)
  return true
}
