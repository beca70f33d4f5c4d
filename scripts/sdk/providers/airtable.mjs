import { hmac } from '../frame.mjs'
import { python } from '../python.mjs'

const judge = await python('airtable')

export const { sdk, verify } = judge
export const kind = 'source'
// The key is what the base64 stands for.
export const secret = 'YWlydGFibGUtbWFjLXNlY3JldC0wMTIzNDU2Nzg5YWI='
export const otherSecret = 'YWlydGFibGUtc29tZWJvZHktZWxzZS1zLXNlY3JldA=='
export const tolerance = null
export const signature = { header: 'X-Airtable-Content-MAC', pattern: /^hmac-sha256=(.*)$/, encoding: 'hex', prefix: 'hmac-sha256=' }
const notice = 'the library wants a notice of Airtable in ASCII'
export const leftOut = { 'empty body': notice, 'minimal body': notice, unicode: notice }

export const sample = ({ now }) => JSON.stringify({ base: { id: 'app00000000000000' }, webhook: { id: 'ach00000000000000' }, timestamp: new Date(now * 1000).toISOString() })

export function sign({ body, secret }) {
  return { 'X-Airtable-Content-MAC': `hmac-sha256=${hmac('sha256', Buffer.from(secret, 'base64'), body)}` }
}
