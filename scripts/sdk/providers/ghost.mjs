import { bare, load } from '../bare.mjs'
import { hmac } from '../frame.mjs'

const absent = ['@tryghost/debug', '@tryghost/logging', '@tryghost/version', '../../../shared/config']
const WebhookTrigger = load('ghost', 'core/server/services/webhooks/webhook-trigger.js', absent)

export const notSent = 'the SDK goes by position and wants the signature first; send writes it behind its parts'
export const sdk = bare('ghost')
export const secret = 'ghost-webhook-secret-0123456789abcdef'
export const otherSecret = 'ghost-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Ghost-Signature', pattern: /sha256=([^,]*)/, encoding: 'hex', prefix: 'sha256=' }
export const timestamp = { header: 'X-Ghost-Signature', pattern: /t=(\d*)$/, unit: 'ms' }

const rewritten = 'Ghost sends what JSON.stringify writes, the event first'
export const leftOut = {
  'empty body': rewritten,
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'escapes and odd numbers': rewritten,
}

export const sample = ({ id, now }) => JSON.stringify({ event: 'post.published', post: { current: { id, title: 'Hello', updated_at: new Date(now * 1000).toISOString() }, previous: {} } })

// The time follows the body without anything between.
export function sign({ body, now, secret }) {
  return { 'X-Ghost-Signature': `sha256=${hmac('sha256', secret, [body, `${now * 1000}`])}, t=${now * 1000}` }
}

/** The request that Ghost's own sender makes of a payload at a time. */
async function sent({ event, ...payload }, secret, millis) {
  let made
  const hook = { get: (name) => ({ event, target_url: 'https://hooks.example.com/', secret })[name] }
  const models = { Webhook: { findAllByEvent: async () => ({ models: [hook] }), edit: async () => {} } }
  const request = async (_, options) => {
    made = options
    return { statusCode: 200 }
  }
  const { now } = Date
  Date.now = () => millis
  try {
    await new WebhookTrigger({ models, payload: async () => payload, request, limitService: { isLimited: () => false } }).trigger(event, {})
  } finally {
    Date.now = now
  }
  return made
}

export async function verify({ headers, body }, { secret }) {
  const millis = Number(/t=(\d+)$/.exec(headers['x-ghost-signature'])[1])
  const made = await sent(JSON.parse(body), secret, millis)
  return made.body === body.toString() && made.headers['X-Ghost-Signature'] === headers['x-ghost-signature']
}
