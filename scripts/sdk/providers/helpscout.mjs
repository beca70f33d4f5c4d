import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { HelpScoutTrigger } = node('HelpScout/HelpScoutTrigger.node.js')

export { sdk }
export const kind = 'source'
export const secret = 'helpscout-webhook-secret-0123456789abcdef'
export const otherSecret = 'helpscout-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-HelpScout-Signature', encoding: 'base64' }

export const sample = ({ id, now }) => JSON.stringify({ id: 1, number: 2, type: 'email', subject: id, createdAt: new Date(now * 1000).toISOString() })

export function sign({ body, id, secret }) {
  return { 'X-HelpScout-Event': 'convo.created', 'X-HelpScout-Signature': hmac('sha1', secret, body, 'base64') }
}

export async function verify(request, { secret }) {
  const said = await new HelpScoutTrigger().webhook.call(context(request, { data: { secret } }))
  return said.workflowData !== undefined
}
