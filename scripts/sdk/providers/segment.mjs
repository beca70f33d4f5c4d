import { bare, load } from '../bare.mjs'
import { hmac } from '../frame.mjs'

const { default: destination } = load('@segment/action-destinations', 'dist/destinations/webhook/index.js', ['@segment/actions-core'])

export const sdk = bare('@segment/action-destinations')
export const secret = 'segment-shared-secret-0123456789abcdef'
export const otherSecret = 'segment-shared-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Signature', encoding: 'hex' }

const rewritten = 'Segment sends what JSON.stringify writes'
export const leftOut = {
  'empty body': rewritten,
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'escapes and odd numbers': rewritten,
  'body written anew': rewritten,
  'newline put after the body': rewritten,
}

export const sample = ({ id, now }) => JSON.stringify({ messageId: id, type: 'track', event: 'Order Completed', userId: 'user_1', timestamp: new Date(now * 1000).toISOString(), properties: { revenue: 20 } })

export function sign({ body, secret }) {
  return { 'X-Signature': hmac('sha1', secret, body) }
}

// What Segment's own sender puts there for this body.
export function verify({ headers, body }, { secret }) {
  const made = destination.extendRequest({ settings: { sharedSecret: secret }, payload: { data: JSON.parse(body) } })
  return headers['x-signature'] === made.headers['X-Signature']
}
