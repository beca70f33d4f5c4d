import Finch from '@tryfinch/finch-api'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@tryfinch/finch-api')
export const secret = 'ZmluY2gtc2VjcmV0LTAxMjM0NTY3ODlhYmNkZWY='
export const otherSecret = 'c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const tolerance = 300
export const signature = { header: 'Finch-Signature', pattern: /v1,(\S*)/, encoding: 'base64', prefix: 'v1,', several: (a, b) => `${a} ${b}` }
export const timestamp = { header: 'Finch-Timestamp', unit: 's' }
export const signedHeaders = ['Finch-Event-ID']

const client = new Finch({ accessToken: 'unused' })

export function sign({ body, now, id, secret }) {
  const key = Buffer.from(secret, 'base64')
  return { 'Finch-Event-ID': id, 'Finch-Timestamp': `${now}`, 'Finch-Signature': `v1,${hmac('sha256', key, [`${id}.${now}.`, body], 'base64')}` }
}

export function verify({ headers, body }, { secret }) {
  client.webhooks.verifySignature(body.toString(), headers, secret)
  return true
}

export async function* cases({ basic, get, put }) {
  const value = get(basic.headers, 'Finch-Signature')
  yield { name: 'only under v2', valid: false, request: { ...basic, headers: put(basic.headers, 'Finch-Signature', value.replace('v1,', 'v2,')) } }
}
