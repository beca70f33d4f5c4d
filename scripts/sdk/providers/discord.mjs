import { sign as signBytes } from 'node:crypto'
import { verifyKey } from 'discord-interactions'
import { installed } from '../frame.mjs'

export const sdk = installed('discord-interactions')
export const recorded = 'elsewhere'
export const publicKey = '6b5d1d8886741227d1e4b133d7d78333879a5da306a1d829d4ef44d7ef5bebac'
export const privateKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINgh193W+vUPnb+wglF7bz/epsz3KE2Uo2gFzWr33M1L
-----END PRIVATE KEY-----
`
export const tolerance = null

export function sign({ body, now, privateKey }) {
  const value = signBytes(null, Buffer.concat([Buffer.from(`${now}`), body]), privateKey)
  return { 'X-Signature-Timestamp': `${now}`, 'X-Signature-Ed25519': value.toString('hex') }
}

export function verify({ headers, body }, { publicKey }) {
  return verifyKey(body, headers['x-signature-ed25519'], headers['x-signature-timestamp'], publicKey)
}
