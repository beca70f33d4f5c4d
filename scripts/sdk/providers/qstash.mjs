import { Receiver } from '@upstash/qstash'
import { digest, hmac, installed, jwt } from '../frame.mjs'

export const sdk = installed('@upstash/qstash')
export const recorded = 'elsewhere'
export const secret = 'sig_0123456789abcdefghijklmnop'
export const tolerance = null
export const signsUrl = true

export function sign({ body, url, now, id, secret }) {
  const claims = { iss: 'Upstash', sub: url, exp: now + 300, nbf: now, iat: now, jti: `jwt_${id}`, body: digest('sha256', body, 'base64url') }
  return {
    'Upstash-Message-Id': id,
    'Upstash-Signature': jwt({ alg: 'HS256', typ: 'JWT' }, claims, (text) => hmac('sha256', secret, text, 'base64url')),
  }
}

export function verify({ headers, body, url }, { secret, nextSecret = secret }) {
  const receiver = new Receiver({ currentSigningKey: secret, nextSigningKey: nextSecret })
  return receiver.verify({ signature: headers['upstash-signature'], body: body.toString(), url })
}
