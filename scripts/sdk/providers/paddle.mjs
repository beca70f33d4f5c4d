import { Paddle } from '@paddle/paddle-node-sdk'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@paddle/paddle-node-sdk')
export const recorded = 'elsewhere'
export const secret = 'pdl_ntfset_0123456789abcdef_0123456789abcdef'
export const tolerance = 5

const paddle = new Paddle('unused')

export function sign({ body, now, secret }) {
  return { 'Paddle-Signature': `ts=${now};h1=${hmac('sha256', secret, [`${now}:`, body])}` }
}

export function verify({ headers, body }, { secret }) {
  return paddle.webhooks.isSignatureValid(body.toString(), secret, headers['paddle-signature'])
}
