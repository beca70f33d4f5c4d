import { WorkOS } from '@workos-inc/node'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

export const sdk = installed('@workos-inc/node')
export const secret = 'workos-webhook-secret-0123456789'
export const otherSecret = 'workos-webhook-secret-of-somebody-else'
export const tolerance = 180
export const signature = { header: 'WorkOS-Signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=' }
export const timestamp = { header: 'WorkOS-Signature', pattern: /t=([^,]*)/, unit: 'ms' }
export const leftOut = {
  ...aheadUnlimited,
  'another prefix': 'the SDK goes by position and does not look at the names',
  'only under v2': 'the SDK goes by position and does not look at the names',
}

const workos = new WorkOS('sk_unused', { clientId: 'unused' })

export const sample = ({ id, now }) =>
  JSON.stringify({ id, event: 'user.created', created_at: new Date(now * 1000).toISOString(), data: { object: 'user', id: 'user_1', email: 'a@example.com' } })

export function sign({ body, now, secret }) {
  return { 'WorkOS-Signature': `t=${now * 1000}, v1=${hmac('sha256', secret, [`${now * 1000}.`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  return workos.webhooks.verifyHeader({ payload: body, sigHeader: headers['workos-signature'], secret })
}

export async function* cases({ basic, get, put }) {
  const value = get(basic.headers, 'WorkOS-Signature')
  const signed = (text) => ({ ...basic, headers: put(basic.headers, 'WorkOS-Signature', text) })
  yield { name: 'no space after the comma', valid: true, request: signed(value.replace(', ', ',')) }
  yield { name: 'no timestamp', valid: false, request: signed(value.replace(/^t=\d+, /, '')) }
  yield { name: 'only under v2', valid: false, request: signed(value.replace('v1=', 'v2=')) }
}
