import { sign as signBytes } from 'node:crypto'
import Telnyx from 'telnyx'
import { installed } from '../frame.mjs'

export const sdk = installed('telnyx')
export const publicKey = 'a10diIZ0EifR5LEz19eDM4eaXaMGodgp1O9E1+9b66w='
export const privateKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINgh193W+vUPnb+wglF7bz/epsz3KE2Uo2gFzWr33M1L
-----END PRIVATE KEY-----
`
export const otherPrivateKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFImBL7iIVa0BaX+TcVMcP1i5h0/n4UPpSOBoBYclOVZ
-----END PRIVATE KEY-----
`
export const tolerance = 300
export const signature = { header: 'telnyx-signature-ed25519', encoding: 'base64' }
export const timestamp = { header: 'telnyx-timestamp', unit: 's' }
export const leftOut = { 'empty body': 'the SDK parses the body as JSON' }

const client = new Telnyx({ apiKey: 'unused' })

export const sample = ({ id, now }) =>
  JSON.stringify({
    data: { event_type: 'message.received', id, occurred_at: new Date(now * 1000).toISOString(), payload: { text: 'Hello' }, record_type: 'event' },
    meta: { attempt: 1, delivered_to: 'https://hooks.example.com/path' },
  })

export function sign({ body, now, privateKey }) {
  const value = signBytes(null, Buffer.concat([Buffer.from(`${now}|`), body]), privateKey)
  return { 'telnyx-timestamp': `${now}`, 'telnyx-signature-ed25519': value.toString('base64') }
}

export async function verify({ headers, body }, { publicKey }) {
  await client.webhooks.unwrap(body.toString(), { headers, key: publicKey })
  return true
}

export async function* cases({ basic, get, put }) {
  const name = 'telnyx-signature-ed25519'
  const value = get(basic.headers, name)
  const signed = (text) => ({ ...basic, headers: put(basic.headers, name, text) })
  yield { name: 'signature in base64url', valid: false, request: signed(Buffer.from(value, 'base64').toString('base64url')) }
  yield { name: 'signature without its padding', valid: false, request: signed(value.replace(/=+$/, '')) }
}
