import { Webhook } from '@authsignal/node'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

export const sdk = installed('@authsignal/node')
export const secret = 'authsignal-api-secret-key-0123456789=='
export const otherSecret = 'authsignal-api-secret-key-of-somebody-else'
export const tolerance = 300
// Base64 without its padding.
export const signature = { header: 'X-Signature-V2', pattern: /v2=([^,]*)/, encoding: 'base64', prefix: 'v2=', several: (a, b) => `${a},${/v2=.*/.exec(b)[0]}` }
export const timestamp = { header: 'X-Signature-V2', pattern: /t=([^,]*)/, unit: 's' }
export const leftOut = { ...aheadUnlimited, 'empty body': 'the SDK parses the body as JSON' }

export const sample = ({ id, now }) =>
  JSON.stringify({ version: 1, id, source: 'https://authsignal.com', time: new Date(now * 1000).toISOString(), tenantId: 'tenant_1', type: 'sms.created', data: { to: '+6427000000' } })

export function sign({ body, now, secret }) {
  const value = hmac('sha256', secret, [`${now}.`, body], 'base64').replace('=', '')
  return { 'X-Signature-V2': `t=${now},v2=${value}` }
}

export function verify({ headers, body }, { secret }) {
  new Webhook(secret).constructEvent(body.toString(), headers['x-signature-v2'])
  return true
}
