import { documented } from '../documented.mjs'
import { hmac } from '../frame.mjs'

export const secret = 'bitbucket-webhook-secret-0123456789abcdef'
export const otherSecret = 'bitbucket-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Hub-Signature', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }

export const sample = ({ id, now }) => JSON.stringify({ actor: { uuid: id }, repository: { full_name: 'team/repo' }, push: { changes: [] }, at: now })

export function sign({ body, id = 'evt_0001', secret }) {
  return { 'X-Event-Key': 'repo:push', 'X-Hook-UUID': 'hook_1', 'X-Request-UUID': id, 'X-Attempt-Number': '1', 'X-Hub-Signature': `sha256=${hmac('sha256', secret, body)}` }
}

export const { sdk, kind, cases } = documented('https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/', sign, ['X-Hub-Signature'], [
  {
    secret: "It's a Secret to Everybody",
    body: 'Hello World!',
    headers: { 'X-Hub-Signature': 'sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9' },
  },
])

export function verify({ headers, body }, { secret }) {
  return headers['x-hub-signature'] === sign({ body, secret })['X-Hub-Signature']
}
