import { hmac } from '../frame.mjs'
import { sdk, validator } from '../nuxt.mjs'

const validate = await validator('docusign', 'isValidDocusignWebhook')

export { sdk }
export const kind = 'source'
export const secret = 'docusign-webhook-secret-0123456789abcdef'
export const otherSecret = 'docusign-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-DocuSign-Signature-1', encoding: 'base64' }
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) => JSON.stringify({ event: 'envelope-completed', apiVersion: 'v2.1', uri: '/restapi/v2.1/accounts/1/envelopes/2', retryCount: 0, configurationId: 1, generatedDateTime: new Date(now * 1000).toISOString(), data: { accountId: 'account_1', envelopeId: id } })

export function sign({ body, id, secret }) {
  return { 'X-DocuSign-Signature-1': hmac('sha256', secret, body, 'base64') }
}

export function verify(request, { secret }) {
  return validate(request, { secretKey: secret })
}

export async function* cases({ basic, make, get, put }) {
  const header = 'X-DocuSign-Signature-1'
  const right = get(basic.headers, header)
  const wrong = get((await make({ secret: otherSecret })).headers, header)
  const numbered = (...values) => {
    let headers = put(basic.headers, header, undefined)
    for (const [at, value] of values) headers = put(headers, `X-DocuSign-Signature-${at}`, value)
    return { ...basic, headers }
  }
  yield { name: 'second header right', valid: true, request: numbered([1, wrong], [2, right]) }
  yield { name: 'first header right, second wrong', valid: true, request: numbered([1, right], [2, wrong]) }
  yield { name: 'only the third header', valid: true, request: numbered([3, right]) }
  yield { name: 'the hundredth header', valid: true, request: numbered([1, wrong], [100, right]) }
  yield { name: 'two headers, both wrong', valid: false, request: numbered([1, wrong], [2, wrong]) }
  yield { name: 'header without a number', valid: false, request: { ...basic, headers: { 'Content-Type': 'application/json', 'X-DocuSign-Signature': right } } }
}
