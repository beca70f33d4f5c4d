import { WebhookVerificationService } from '@hookflo/tern'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@hookflo/tern')
export const kind = 'source'
export const secret = 'doppler-signing-secret-0123456789abcdef'
export const otherSecret = 'doppler-signing-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Doppler-Signature', pattern: /^sha256=(.*)$/, encoding: 'hex', prefix: 'sha256=' }

export const sample = ({ id, now }) => JSON.stringify({ type: 'config.secrets.update', config: { name: 'prd' }, project: { id }, created_at: new Date(now * 1000).toISOString() })

export function sign({ body, id, secret }) {
  return { 'X-Doppler-Signature': `sha256=${hmac('sha256', secret, body)}` }
}

export async function verify({ method, url, headers, body }, { secret }) {
  const request = new Request(url, { method, headers, body })
  return (await WebhookVerificationService.verify(request, { platform: 'doppler', secret })).isValid
}
