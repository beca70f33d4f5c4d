import { WebhookSignatureValidator } from 'mercadopago'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('mercadopago')
export const secret = 'mercado-pago-webhook-secret-0123456789'
export const otherSecret = 'mercado-pago-webhook-secret-of-somebody-else'
export const tolerance = null
// The body is not signed: only the id in the query, a header and the time are.
export const ownBodies = true
export const signature = { header: 'x-signature', pattern: /v1=([^,]*)/, encoding: 'hex', prefix: 'v1=' }
export const timestamp = { header: 'x-signature', pattern: /ts=([^,]*)/, unit: 's' }
export const leftOut = { 'signature of another delivery': 'the body is not signed' }
export const signedHeaders = ['x-request-id']

export const sample = ({ now }) => JSON.stringify({ action: 'payment.updated', api_version: 'v1', data: { id: '123456' }, date_created: new Date(now * 1000).toISOString(), id: 12345, live_mode: false, type: 'payment', user_id: 1 })

const dataId = (url) => new URL(url).searchParams.get('data.id')

export function sign({ url, now, secret, request = 'bb56a2f1-6aae-46ac-982e-9dcd3581d08e' }) {
  const id = dataId(url)
  const parts = [id && `id:${id};`, request && `request-id:${request};`, `ts:${now};`].filter(Boolean)
  const headers = { 'x-signature': `ts=${now},v1=${hmac('sha256', secret, parts)}` }
  return request ? { 'x-request-id': request, ...headers } : headers
}

export function verify({ url, headers }, { secret }) {
  WebhookSignatureValidator.validate({ xSignature: headers['x-signature'], xRequestId: headers['x-request-id'], dataId: dataId(url), secret })
  return true
}

export async function* cases({ make }) {
  const url = 'https://hooks.example.com/path?data.id=123456&type=payment'
  const full = await make({ url })
  yield { name: 'with data.id', valid: true, request: full }
  yield { name: 'another body', valid: true, request: { ...full, body: Buffer.from('{}') } }
  yield { name: 'data.id changed', valid: false, request: { ...full, url: url.replace('123456', '123457') } }
  yield { name: 'data.id left out', valid: false, request: { ...full, url: 'https://hooks.example.com/path?type=payment' } }
  yield { name: 'type changed, which is not signed', valid: true, request: { ...full, url: url.replace('type=payment', 'type=order') } }
  yield { name: 'without a request id', valid: true, request: await make({ url, request: '' }) }
}
