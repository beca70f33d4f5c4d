import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { verifySignature } = createRequire(import.meta.url)('../node_modules/scrapfly-sdk/script/webhookserver.js')

export const sdk = installed('scrapfly-sdk')
export const secret = 'scrapfly-signing-secret-0123456789'
export const otherSecret = 'scrapfly-signing-secret-of-somebody-else'
export const tolerance = null
// Upper case is what Scrapfly sends here; lower case has a header of its own.
export const signature = { header: 'X-Scrapfly-Webhook-Signature', encoding: 'hex' }
export const leftOut = { 'signature in upper case': 'it is upper case' }

export const sample = ({ id }) => JSON.stringify({ config: {}, context: { job: { uuid: id } }, result: { success: true, status_code: 200, content: '<html>' } })

export function sign({ body, id, secret }) {
  return { 'X-Scrapfly-Webhook-Job-Id': id, 'X-Scrapfly-Webhook-Resource-Type': 'scrape', 'X-Scrapfly-Webhook-Signature': hmac('sha256', secret, body).toUpperCase() }
}

export function verify({ headers, body }, { secret }) {
  return verifySignature(body, headers['x-scrapfly-webhook-signature'], secret)
}
