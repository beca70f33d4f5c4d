import EasyPost from '@easypost/api'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@easypost/api')
export const recorded = 'elsewhere'
export const secret = 'sécret of easypost'
export const tolerance = null

const client = new EasyPost('unused')

export function sign({ body, secret }) {
  return { 'X-Hmac-Signature': `hmac-sha256-hex=${hmac('sha256', secret.normalize('NFKD'), body)}` }
}

export function verify({ headers, body }, { secret }) {
  client.Utils.validateWebhook(body, headers, secret)
  return true
}
