import { v2 as cloudinary } from 'cloudinary'
import { aheadUnlimited, digest, installed } from '../frame.mjs'

export const sdk = installed('cloudinary')
export const secret = 'cloudinary-api-secret-0123456789'
export const otherSecret = 'cloudinary-api-secret-of-somebody-else'
export const tolerance = 7200
export const signature = { header: 'X-Cld-Signature', encoding: 'hex' }
export const timestamp = { header: 'X-Cld-Timestamp', unit: 's' }
export const leftOut = aheadUnlimited

export const sample = ({ id, now }) =>
  JSON.stringify({ notification_type: 'upload', timestamp: new Date(now * 1000).toISOString(), request_id: id, asset_id: 'asset_1', public_id: 'folder/file', version: now })

// A plain digest with the secret at the end, not an HMAC; sha1 unless the account was moved to sha256.
export function sign({ body, now, secret }) {
  return { 'X-Cld-Timestamp': `${now}`, 'X-Cld-Signature': digest('sha1', [body, `${now}`, secret]) }
}

export function verify({ headers, body }, { secret }) {
  cloudinary.config({ api_secret: secret, signature_algorithm: 'sha1' })
  return cloudinary.utils.verifyNotificationSignature(body.toString(), headers['x-cld-timestamp'], headers['x-cld-signature'])
}
