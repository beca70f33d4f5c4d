import { bare, load } from '../bare.mjs'
import { hmac } from '../frame.mjs'

const { validateSignature } = load('twitter-autohook', 'index.js', ['ngrok', 'dotenv', './client', './bearer-token'])

export const sdk = bare('twitter-autohook')
export const secret = 'twitter-consumer-secret-0123456789abcdef'
export const otherSecret = 'twitter-consumer-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'x-twitter-webhooks-signature', pattern: /^sha256=(.*)$/, encoding: 'base64', prefix: 'sha256=' }

export const sample = ({ id, now }) => JSON.stringify({ for_user_id: '2244994945', tweet_create_events: [{ id_str: id, timestamp_ms: `${now}000`, text: 'hello' }] })

export function sign({ body, secret }) {
  return { 'x-twitter-webhooks-signature': `sha256=${hmac('sha256', secret, body, 'base64')}` }
}

export function verify({ headers, body }, { secret }) {
  return validateSignature(headers, { consumer_secret: secret }, body.toString())
}
