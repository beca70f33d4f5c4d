import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { verifyTerraWebhookSignature } = createRequire(import.meta.url)('terra-api')

export const sdk = installed('terra-api')
export const secret = 'terra-signing-secret-0123456789abcdef'
export const otherSecret = 'terra-signing-secret-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'terra-signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=', several: (a, b) => `${a},${/v1=.*/.exec(b)[0]}` }
export const timestamp = { header: 'terra-signature', pattern: /t=([^,]*)/, unit: 's' }

export const leftOut = { 'empty body': 'the SDK wants a body', 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id, now }) =>
  JSON.stringify({ type: 'activity', user: { user_id: 'user_1', provider: 'GARMIN' }, data: [{ metadata: { summary_id: id, start_time: new Date(now * 1000).toISOString() } }] })

export function sign({ body, now, secret }) {
  return { 'terra-signature': `t=${now},v1=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  return verifyTerraWebhookSignature(body.toString(), headers['terra-signature'], secret)
}
