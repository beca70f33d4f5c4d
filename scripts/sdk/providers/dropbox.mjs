import { hmac } from '../frame.mjs'
import { sdk, validator } from '../nuxt.mjs'

const validate = await validator('dropbox', 'isValidDropboxWebhook')

export { sdk }
export const kind = 'source'
export const secret = 'dropbox-webhook-secret-0123456789abcdef'
export const otherSecret = 'dropbox-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Dropbox-Signature', encoding: 'hex' }
export const leftOut = { 'empty body': 'the library wants a body' }

export const sample = ({ id, now }) => JSON.stringify({ list_folder: { accounts: ['dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngc'] }, delta: { users: [12345678] }, id, now })

export function sign({ body, id, secret }) {
  return { 'X-Dropbox-Signature': hmac('sha256', secret, body, 'hex') }
}

export function verify(request, { secret }) {
  return validate(request, { appSecret: secret })
}

