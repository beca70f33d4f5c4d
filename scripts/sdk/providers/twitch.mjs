import { Readable } from 'node:stream'
import { EventSubMiddleware } from '@twurple/eventsub-http'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

// Twitch has no SDK that verifies. This is the handler of the library that most Node programs use.
export const sdk = installed('@twurple/eventsub-http')
export const kind = 'source'
export const secret = 'twitch-eventsub-secret-0123456789'
export const otherSecret = 'twitch-eventsub-secret-of-somebody-else'
export const tolerance = 600
export const signature = { header: 'Twitch-Eventsub-Message-Signature', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }
export const timestamp = { header: 'Twitch-Eventsub-Message-Timestamp', unit: 'rfc3339' }
export const signedHeaders = ['Twitch-Eventsub-Message-Id']
export const leftOut = {
  ...aheadUnlimited,
  'signature in upper case': 'the library decodes hex of either case',
  'empty body': 'the library parses the body as JSON',
}

export const sample = ({ id }) =>
  JSON.stringify({ subscription: { id: 's1', status: 'enabled', type: 'channel.follow', version: '2', cost: 0 }, event: { user_id: '1337', event: id }, challenge: 'pogchamp-kappa-360noscope-vohiyo' })

/** As Twitch writes it: nanoseconds, and Z. */
const stamped = (now) => new Date(now * 1000).toISOString().replace(/\.000Z$/, '.123456789Z')

export function sign({ body, now, id, secret, type = 'notification', stamp = stamped(now) }) {
  return {
    'Twitch-Eventsub-Message-Id': id,
    'Twitch-Eventsub-Message-Retry': '0',
    'Twitch-Eventsub-Message-Type': type,
    'Twitch-Eventsub-Message-Timestamp': stamp,
    'Twitch-Eventsub-Message-Signature': `sha256=${hmac('sha256', secret, [id, stamp, body])}`,
    'Twitch-Eventsub-Subscription-Type': 'channel.follow',
    'Twitch-Eventsub-Subscription-Version': '2',
  }
}

/** The library's own handler, with the network and the user's callbacks taken away. True where it acts on the message. */
export async function verify({ headers, body }, { secret }) {
  let acted = false
  const quiet = { debug() {}, info() {}, warn() {}, error() {} }
  const listener = Object.create(EventSubMiddleware.prototype, {
    _secret: { value: secret },
    _strictHostCheck: { value: false },
    _logger: { value: quiet },
    _subscriptions: { value: new Map([['s1', { id: 's1', _verify() {} }]]) },
    _twitchSubscriptions: { value: new Map() },
    _dropSubscription: { value() {} },
    _dropTwitchSubscription: { value() {} },
    _handleSingleEventPayload: { value: () => (acted = true) },
    emit: { value: (event, verified) => (acted = Boolean(verified)) },
  })
  const request = Object.assign(Readable.from(body.length ? [body] : []), { headers, params: { id: 's1' } })
  const response = { setHeader() {}, writeHead() {}, end() {} }
  await listener._createHandleRequest()(request, response, () => {})
  return acted
}

export async function* cases({ make, basic, get, put }) {
  yield { name: 'challenge', valid: true, request: await make({ type: 'webhook_callback_verification' }) }
  yield { name: 'challenge signed with another key', valid: false, request: await make({ type: 'webhook_callback_verification', secret: otherSecret }) }
  yield { name: 'revocation', valid: true, request: await make({ type: 'revocation' }) }
  yield { name: 'timestamp in whole seconds', valid: true, request: await make({ stamp: '2026-11-16T00:08:20Z' }) }
  yield { name: 'timestamp in milliseconds', valid: true, request: await make({ stamp: '2026-11-16T00:08:20.123Z' }) }
  yield { name: 'second attempt', valid: true, request: { ...basic, headers: put(basic.headers, 'Twitch-Eventsub-Message-Retry', '1') } }
  yield { name: 'only under sha1', valid: false, request: { ...basic, headers: put(basic.headers, signature.header, get(basic.headers, signature.header).replace('sha256=', 'sha1=')) } }
}
