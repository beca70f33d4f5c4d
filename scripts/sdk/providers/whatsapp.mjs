import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { verifySignature } = createRequire(import.meta.url)('@kapso/whatsapp-cloud-api/server')

export const sdk = installed('@kapso/whatsapp-cloud-api')
export const kind = 'source'
export const secret = 'whatsapp-app-secret-0123456789abcdef'
export const otherSecret = 'whatsapp-app-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Hub-Signature-256', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }
export const leftOut = { 'signature in upper case': 'the library takes upper case too' }

export const sample = ({ id, now }) =>
  JSON.stringify({ object: 'whatsapp_business_account', entry: [{ id: 'account_1', changes: [{ field: 'messages', value: { messaging_product: 'whatsapp', messages: [{ id, timestamp: `${now}`, type: 'text', text: { body: 'hello' } }] } }] }] })

export function sign({ body, secret }) {
  return { 'X-Hub-Signature-256': `sha256=${hmac('sha256', secret, body)}` }
}

export function verify({ headers, body }, { secret }) {
  return verifySignature({ appSecret: secret, rawBody: body, signatureHeader: headers['x-hub-signature-256'] })
}
