import { sign as signBytes } from 'node:crypto'
import { EventWebhook } from '@sendgrid/eventwebhook'
import { installed } from '../frame.mjs'

export const sdk = installed('@sendgrid/eventwebhook')
export const publicKey = 'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEBdVs3LZGpXRy8GW2gx2vs8GJ/2BvGew290evfoc2mQO7rs7NuyxkukRbEd1YO7aQbOy5WkBhHJdBjQ7NKjYLlQ=='
export const privateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgE+PILc7jUUIthpUt
jrLU7CqlOUMxkbWd3vtX955goVChRANCAAQF1WzctkaldHLwZbaDHa+zwYn/YG8Z
7Db3R69+hzaZA7uuzs27LGS6RFsR3Vg7tpBs7LlaQGEcl0GNDs0qNguV
-----END PRIVATE KEY-----
`
export const otherPrivateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgO2NNL81/C7LM5pVp
liOh57il3/Fv3EdFONNeW0yecI6hRANCAASgUMb6mxQKH4TyDYWWI47WDtjhdKob
1PSV927TS5lM6r8ozO5E8D1WGpSJF7Bb6VktK8SWoakXrRzuEA9kLjUo
-----END PRIVATE KEY-----
`
// The timestamp is signed, and its age is not looked at.
export const tolerance = null
export const signature = { header: 'X-Twilio-Email-Event-Webhook-Signature', encoding: 'base64' }
export const timestamp = { header: 'X-Twilio-Email-Event-Webhook-Timestamp', unit: 's' }

const webhook = new EventWebhook()

// SendGrid ends every body with a line break, which is signed too.
export const sample = ({ id, now }) =>
  `${JSON.stringify([{ email: 'a@example.com', timestamp: now, event: 'delivered', sg_event_id: id, sg_message_id: 'm1' }])}\r\n`

export function sign({ body, now, privateKey }) {
  const value = signBytes('sha256', Buffer.concat([Buffer.from(`${now}`), body]), privateKey)
  return { 'X-Twilio-Email-Event-Webhook-Timestamp': `${now}`, 'X-Twilio-Email-Event-Webhook-Signature': value.toString('base64') }
}

export function verify({ headers, body }, { publicKey }) {
  return webhook.verifySignature(
    webhook.convertPublicKeyToECDSA(publicKey),
    body,
    headers['x-twilio-email-event-webhook-signature'],
    headers['x-twilio-email-event-webhook-timestamp'],
  )
}

export async function* cases({ make, basic, text, put }) {
  const two = JSON.stringify([...JSON.parse(text()), { ...JSON.parse(text())[0], sg_event_id: 'evt_0002' }])
  yield { name: 'two events', valid: true, request: await make({ body: two }) }
  yield { name: 'line break at the end left out', valid: false, request: { ...basic, body: Buffer.from(text().trimEnd()) } }
  yield { name: 'a year later', valid: true, request: basic, now: 1794787700 + 365 * 86_400 }
  const raw = signBytes('sha256', Buffer.concat([Buffer.from('1794787700'), basic.body]), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  yield { name: 'signature as two numbers without DER', valid: false, request: { ...basic, headers: put(basic.headers, signature.header, raw.toString('base64')) } }
}
