import { hmac } from '../frame.mjs'
import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Onfleet/OnfleetTriggerHelpers.js')

export { sdk }
export const kind = 'source'
// The secret is written in hex, and the key is what the hex stands for.
export const secret = 'c9a0b1d2e3f405162738495a6b7c8d9eafb0c1d2e3f405162738495a6b7c8d9e'
export const otherSecret = '0102030405060708090a0b0c0d0e0f100102030405060708090a0b0c0d0e0f10'
export const tolerance = null
export const signature = { header: 'X-Onfleet-Signature', encoding: 'hex' }

export const sample = ({ id, now }) => JSON.stringify({ taskId: 'task_1', workerId: 'worker_1', actionContext: { type: 'WORKER', id }, triggerId: 0, triggerName: 'taskStarted', time: now * 1000 })

export function sign({ body, secret }) {
  return { 'X-Onfleet-Signature': hmac('sha512', Buffer.from(secret, 'hex'), body) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { credentials: { signingSecret: secret } }))
}
