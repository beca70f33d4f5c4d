import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { CiscoWebexTrigger } = node('Cisco/Webex/CiscoWebexTrigger.node.js')

export { sdk }
export const kind = 'source'
export const secret = 'webex-webhook-secret-0123456789abcdef'
export const otherSecret = 'webex-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Spark-Signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ id: 'webhook_1', name: 'hook', resource: 'messages', event: 'created', orgId: 'org_1', created: new Date(now * 1000).toISOString(), data: { id, roomId: 'room_1' } })

export function sign({ body, id, secret }) {
  return { 'X-Spark-Signature': hmac('sha1', secret, body) }
}

export async function verify(request, { secret }) {
  const said = await new CiscoWebexTrigger().webhook.call(context(request, { data: { secret } }))
  return said.workflowData !== undefined
}
