import { digest, hmac, jwt } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Netlify/NetlifyTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'netlify-jws-secret-0123456789abcdef'
export const otherSecret = 'netlify-jws-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Webhook-Signature', pattern: /\.([^.]*)$/, encoding: 'base64url' }

export const sample = ({ id, now }) => JSON.stringify({ id, site_id: 'site_1', build_id: 'build_1', state: 'ready', name: 'example', url: 'https://example.netlify.app', created_at: new Date(now * 1000).toISOString() })

export function sign({ body, secret, header = { alg: 'HS256', typ: 'JWT' }, claims = {} }) {
  const all = { iss: 'netlify', sha256: digest('sha256', body), ...claims }
  return { 'X-Webhook-Signature': jwt(header, all, (signed) => hmac('sha256', secret, signed, 'base64url')) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}

export async function* cases({ make, NOW }) {
  yield { name: 'another issuer', valid: false, request: await make({ claims: { iss: 'somebody' } }) }
  yield { name: 'issuer left out', valid: false, request: await make({ claims: { iss: undefined } }) }
  yield { name: 'hash of another body', valid: false, request: await make({ claims: { sha256: digest('sha256', '{}') } }) }
  yield { name: 'hash left out', valid: false, request: await make({ claims: { sha256: undefined } }) }
  yield { name: 'algorithm none', valid: false, request: await make({ header: { alg: 'none', typ: 'JWT' } }) }
  yield { name: 'expired', valid: false, request: await make({ claims: { exp: NOW - 3600 } }) }
}
