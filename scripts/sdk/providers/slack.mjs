import bolt from '@slack/bolt'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@slack/bolt')
export const recorded = 'elsewhere'
export const secret = '0123456789abcdef0123456789abcdef'
export const tolerance = 300

export function sign({ body, now, secret }) {
  return { 'X-Slack-Request-Timestamp': `${now}`, 'X-Slack-Signature': `v0=${hmac('sha256', secret, [`v0:${now}:`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  bolt.verifySlackRequest({ signingSecret: secret, body: body.toString(), headers })
  return true
}
