import { Nango } from '@nangohq/node'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@nangohq/node')
export const secret = 'nango-webhook-signing-key-0123456789'
export const otherSecret = 'nango-webhook-signing-key-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Nango-Hmac-Sha256', encoding: 'hex' }
export const leftOut = { 'signature in upper case': 'the SDK takes upper case too' }

export const sample = () => JSON.stringify({ from: 'nango', type: 'sync', connectionId: 'connection_1', providerConfigKey: 'github', syncName: 'issues', responseResults: { added: 1, updated: 0, deleted: 0 } })

export function sign({ body, secret }) {
  return { 'X-Nango-Hmac-Sha256': hmac('sha256', secret, body) }
}

export function verify({ headers, body }, { secret }) {
  return new Nango({ apiKey: 'unused', webhookSigningKey: secret }).verifyIncomingWebhookRequest(body.toString(), headers)
}
