import source from '@pipedream/launchdarkly/sources/common/webhook.mjs'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@pipedream/launchdarkly')
export const kind = 'source'
export const secret = 'launchdarkly-webhook-secret-0123456789'
export const otherSecret = 'launchdarkly-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-LD-Signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ _id: id, _accountId: 'account_1', date: now * 1000, kind: 'flag', name: 'Flag', titleVerb: 'turned on the flag' })

export function sign({ body, secret }) {
  return { 'X-LD-Signature': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return source.methods.isSignatureValid.call({ getSecret: () => secret }, headers['x-ld-signature'], body)
}
