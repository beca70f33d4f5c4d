import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { Webhooks } = createRequire(import.meta.url)('extend-ai/wrapper/webhooks')

export const sdk = installed('extend-ai')
export const secret = 'wss_extend0123456789abcdef'
export const otherSecret = 'wss_extend-of-somebody-else'
export const tolerance = 300
export const signature = { header: 'x-extend-request-signature', encoding: 'hex' }
export const timestamp = { header: 'x-extend-request-timestamp', unit: 's' }
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too' }

export const sample = ({ id }) => JSON.stringify({ eventId: id, eventType: 'workflow_run.completed', payload: { object: 'workflow_run', id: 'workflow_run_1' } })

export function sign({ body, now, secret }) {
  return { 'x-extend-request-timestamp': `${now}`, 'x-extend-request-signature': hmac('sha256', secret, [`v0:${now}:`, body]) }
}

export function verify({ headers, body }, { secret }) {
  return new Webhooks().verify(body.toString(), headers, secret)
}
