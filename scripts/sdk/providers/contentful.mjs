import { signRequest, verifyRequest } from '@contentful/node-apps-toolkit'
import { aheadUnlimited, installed } from '../frame.mjs'

export const sdk = installed('@contentful/node-apps-toolkit')
export const secret = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_'
export const otherSecret = 'somebody_else_______________________________________ABCDEFGHIJ-_'
export const tolerance = 30
export const signedBy = 'sdk'
export const signsMethod = true
export const contentType = 'application/vnd.contentful.management.v1+json'
export const signature = { header: 'x-contentful-signature', encoding: 'hex' }
export const timestamp = { header: 'x-contentful-timestamp', unit: 'ms' }
export const signedHeaders = ['x-contentful-topic', 'x-contentful-signed-headers']
export const leftOut = aheadUnlimited

export const sample = ({ id }) => JSON.stringify({ sys: { type: 'Entry', id, version: 5 }, fields: { title: { 'en-US': 'Hello' } } })

const pathOf = (url) => url.replace(/^https?:\/\/[^/]+/, '')

export function sign({ body, url, method, now, id, secret, extra = {} }) {
  const headers = { 'X-Contentful-Topic': 'ContentManagement.Entry.publish', 'X-Contentful-Webhook-Name': 'hookonce', ...extra }
  const made = signRequest(secret, { method, path: pathOf(url), headers, body: body.toString() }, now * 1000)
  return { 'X-Contentful-Idempotency-Key': id, ...headers, ...made }
}

export function verify({ headers, body, url, method }, { secret }) {
  return verifyRequest(secret, { method, path: pathOf(url), headers, body: body.toString() })
}

// Left out: a list of signed headers in another order (the SDK sorts it), a timestamp with letters behind it (parseInt).
export async function* cases({ make, basic, put, get }) {
  const at = (path) => `https://hooks.example.com${path}`
  yield { name: 'url without a query', valid: true, request: await make({ url: at('/path') }) }
  yield { name: 'url with two parameters', valid: true, request: await make({ url: at('/path?x=1&y=two') }) }
  yield { name: 'url with escapes in the path', valid: true, request: await make({ url: at('/a%20path/%C3%A9') }) }
  yield { name: 'url with escapes in the query', valid: true, request: await make({ url: at("/path?q=a%20b+c%2Fd&e=(1)*'!~-_.") }) }
  yield { name: 'query changed', valid: false, request: { ...basic, url: at('/path?x=2') } }
  yield { name: 'query left out', valid: false, request: { ...basic, url: at('/path') } }
  yield { name: 'path changed', valid: false, request: { ...basic, url: at('/other?x=1') } }
  yield { name: 'host changed, which is not signed', valid: true, request: { ...basic, url: 'https://other.example.com/path?x=1' } }
  yield { name: 'more headers signed', valid: true, request: await make({ extra: { 'X-Contentful-CRN': 'crn:contentful:::content:spaces/s', 'X-Custom': 'a: b; c' } }) }
  yield { name: 'unsigned header added', valid: true, request: { ...basic, headers: { ...basic.headers, 'X-Forwarded-For': '192.0.2.1' } } }
  const list = get(basic.headers, 'x-contentful-signed-headers')
  yield { name: 'a header taken off the list', valid: false, request: { ...basic, headers: put(basic.headers, 'x-contentful-signed-headers', list.replace(',x-contentful-topic', '')) } }
  yield { name: 'a header put on the list', valid: false, request: { ...basic, headers: put(basic.headers, 'x-contentful-signed-headers', `content-type,${list}`) } }
}
