import { sign as signed, verify as verified } from '@octokit/webhooks-methods'
import { installed } from '../frame.mjs'

export const sdk = installed('@octokit/webhooks-methods')
export const recorded = 'elsewhere'
export const secret = "It's a secret of ours"
export const tolerance = null
export const signedBy = 'sdk'

export async function sign({ body, id, secret }) {
  return { 'X-GitHub-Event': 'ping', 'X-GitHub-Delivery': id, 'X-Hub-Signature-256': await signed(secret, body.toString()) }
}

export function verify({ headers, body }, { secret }) {
  return verified(secret, body.toString(), headers['x-hub-signature-256'])
}
