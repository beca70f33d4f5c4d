import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Gitlab/GitlabTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'gitlab-secret-token-0123456789abcdef'
export const otherSecret = 'gitlab-secret-token-of-somebody-else'
export const tolerance = null
// A token, not a signature: the body may be anything.
export const ownBodies = true

export const sample = () => JSON.stringify({ object_kind: 'push', event_name: 'push', ref: 'refs/heads/main', project_id: 1 })

export function sign({ id, secret }) {
  return { 'X-Gitlab-Event': 'Push Hook', 'X-Gitlab-Event-UUID': '13792a34-cac6-4fda-95a8-c58e00a3954e', 'Idempotency-Key': id, 'X-Gitlab-Token': secret }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}

export async function* cases({ make, basic, put }) {
  const token = (value) => ({ ...basic, headers: put(basic.headers, 'X-Gitlab-Token', value) })
  yield { name: 'another body', valid: true, request: { ...basic, body: Buffer.from('{}') } }
  yield { name: 'another token', valid: false, request: await make({ secret: otherSecret }) }
  yield { name: 'token cut short', valid: false, request: token(secret.slice(0, -1)) }
  yield { name: 'token with a character more', valid: false, request: token(`${secret}0`) }
  yield { name: 'token in upper case', valid: false, request: token(secret.toUpperCase()) }
  yield { name: 'token with Bearer before it', valid: false, request: token(`Bearer ${secret}`) }
  yield { name: 'token empty', valid: false, request: token('') }
  yield { name: 'token missing', valid: false, request: token(undefined) }
}
