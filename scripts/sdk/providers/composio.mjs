import { Composio } from '@composio/core'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@composio/core')
// Standard Webhooks, but with the secret's characters as the key: nothing is decoded.
export const secret = 'composio-webhook-secret-0123456789abcdef'
export const otherSecret = 'composio-webhook-secret-of-somebody-else'
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard('webhook', (secret) => secret)
const payload = 'the SDK wants a payload of Composio'
export const leftOut = { 'empty body': payload, 'minimal body': payload }

export const sample = ({ id, now }) =>
  JSON.stringify({ id, timestamp: new Date(now * 1000).toISOString(), type: 'composio.trigger.message', metadata: { log_id: 'log_1', trigger_slug: 'GITHUB_COMMIT_EVENT', trigger_id: 'ti_1', connected_account_id: 'ca_1', auth_config_id: 'ac_1', user_id: 'user_1' }, data: { message: 'hello' } })

const client = new Composio({ apiKey: 'unused', allowTracking: false })

export async function verify({ headers, body }, { secret }) {
  await client.triggers.verifyWebhook({ id: headers['webhook-id'], timestamp: headers['webhook-timestamp'], signature: headers['webhook-signature'], payload: body.toString(), secret })
  return true
}
