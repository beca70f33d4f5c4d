import { documented } from '../documented.mjs'
import { hmac } from '../frame.mjs'

const printed = (secret, body, signature) => ({ secret, body, headers: { 'circleci-signature': `v1=${signature}` } })

export const secret = 'circleci-signing-secret-0123456789'
export const otherSecret = 'circleci-signing-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'circleci-signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${b}` }

export const sample = ({ id, now }) =>
  JSON.stringify({ id, happened_at: new Date(now * 1000).toISOString(), type: 'workflow-completed', webhook: { id: 'webhook_1', name: 'Example' }, workflow: { id: 'workflow_1', status: 'success' } })

export function sign({ body, secret }) {
  return { 'circleci-signature': `v1=${hmac('sha256', secret, body)}` }
}

export const { sdk, kind, cases } = documented('https://circleci.com/docs/guides/integration/outbound-webhooks/', sign, ['circleci-signature'], [
  printed('secret', 'hello world', '734cc62f32841568f45715aeb9f4d7891324e6d948e4c6c60c0621cdac48623a'),
  printed('another-secret', 'lalala', 'daa220016c8f29a8b214fbfc3671aeec2145cfb1e6790184ffb38b6d0425fa00'),
  printed('hunter123', 'an-important-request-payload', '9be2242094a9a8c00c64306f382a7f9d691de910b4a266f67bd314ef18ac49fa'),
])

export function verify({ headers, body }, { secret }) {
  return headers['circleci-signature'].split(',').includes(sign({ body, secret })['circleci-signature'])
}
