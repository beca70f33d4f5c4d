import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { ClickUpTrigger } = node('ClickUp/ClickUpTrigger.node.js')

export { sdk }
export const kind = 'source'
export const secret = 'clickup-webhook-secret-0123456789abcdef'
export const otherSecret = 'clickup-webhook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Signature', encoding: 'hex' }

const rewritten = 'the library signs the parsed body written anew'
export const leftOut = {
  'empty body': 'the library parses the body as JSON',
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'escapes and odd numbers': rewritten,
  'body written anew': rewritten,
  'newline put after the body': rewritten,
}

export const sample = ({ id, now }) => JSON.stringify({ event: 'taskUpdated', history_items: [{ id, type: 1, date: `${now}000` }], task_id: 'task_1', webhook_id: 'webhook_1' })

export function sign({ body, id, secret }) {
  return { 'X-Signature': hmac('sha256', secret, body) }
}

export async function verify(request, { secret }) {
  const said = await new ClickUpTrigger().webhook.call(context(request, { data: { secret } }))
  return said.workflowData !== undefined
}
