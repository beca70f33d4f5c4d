// The scheme of Standard Webhooks, which many providers sign with under their own or the standard's header names.
import { hmac } from './frame.mjs'

/** What a provider file exports for it. `key` makes the bytes of the key from the secret. */
export function standard(prefix = 'webhook', key = fromBase64) {
  const header = (name) => `${prefix}-${name}`
  return {
    tolerance: 300,
    signature: { header: header('signature'), pattern: /v1,(\S*)/, encoding: 'base64', prefix: 'v1,', several: (a, b) => `${a} ${b}` },
    timestamp: { header: header('timestamp'), unit: 's' },
    signedHeaders: [header('id')],
    sign({ body, now, id, secret }) {
      return {
        [header('id')]: id,
        [header('timestamp')]: `${now}`,
        [header('signature')]: `v1,${hmac('sha256', key(secret), [`${id}.${now}.`, body], 'base64')}`,
      }
    },
    async *cases({ make, basic, get, put }) {
      const signature = get(basic.headers, header('signature'))
      const signed = (value) => ({ ...basic, headers: put(basic.headers, header('signature'), value) })
      yield { name: 'id with dots', valid: true, request: await make({ id: 'msg.1.2' }) }
      yield { name: 'asymmetric signature beside it', valid: true, request: signed(`v1a,${'A'.repeat(86)}== ${signature}`) }
      yield { name: 'only under v1a', valid: false, request: signed(signature.replace('v1,', 'v1a,')) }
      yield { name: 'only under v2', valid: false, request: signed(signature.replace('v1,', 'v2,')) }
    },
  }
}

export const fromBase64 = (secret) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
