import { verifyWebhookSignature } from '@notionhq/client'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@notionhq/client')
export const secret = 'secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl'
export const otherSecret = 'secret_of_somebody_else'
export const tolerance = null
export const signature = { header: 'X-Notion-Signature', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id, now }) =>
  JSON.stringify({ id, timestamp: new Date(now * 1000).toISOString(), workspace_id: 'workspace_1', subscription_id: 'subscription_1', type: 'page.created', entity: { id: 'page_1', type: 'page' }, attempt_number: 1 })

export function sign({ body, secret }) {
  return { 'X-Notion-Signature': `sha256=${hmac('sha256', secret, body)}` }
}

export function verify({ headers, body }, { secret }) {
  return verifyWebhookSignature({ body: body.toString(), signature: headers['x-notion-signature'], verificationToken: secret })
}
