import { bare, load } from '../bare.mjs'
import { hmac } from '../frame.mjs'

const { facebookLeads } = load('@activepieces/piece-facebook-leads', 'src/index.js', [])

export const sdk = bare('@activepieces/piece-facebook-leads')
export const kind = 'source'
export const secret = 'facebook-app-secret-0123456789abcdef'
export const otherSecret = 'facebook-app-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Hub-Signature-256', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }
export const leftOut = { 'another prefix': 'the library does not read what stands before the equals sign' }

export const sample = ({ id, now }) => JSON.stringify({ object: 'page', entry: [{ id: 'page_1', time: now, changes: [{ field: 'leadgen', value: { leadgen_id: id, page_id: 'page_1', created_time: now } }] }] })

export function sign({ body, secret }) {
  return { 'X-Hub-Signature-256': `sha256=${hmac('sha256', secret, body)}` }
}

export function verify({ headers, body }, { secret }) {
  return facebookLeads.events.verify({ payload: { headers, rawBody: body }, webhookSecret: secret })
}
