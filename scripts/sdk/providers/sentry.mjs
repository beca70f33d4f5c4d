import { WebhookVerificationService } from '@hookflo/tern'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@hookflo/tern')
export const kind = 'source'
export const secret = 'sentry-signing-secret-0123456789abcdef'
export const otherSecret = 'sentry-signing-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'Sentry-Hook-Signature', encoding: 'hex' }
export const leftOut = {
  'empty body': 'the library parses the body as JSON',
  'body written anew': 'the library signs the parsed body written anew too',
  'newline put after the body': 'the library signs the parsed body written anew too',
}

export const sample = ({ id, now }) => JSON.stringify({ action: 'created', installation: { uuid: 'installation_1' }, data: { issue: { id, title: 'Error' } }, actor: { type: 'application', id: 'sentry', at: now } })

export function sign({ body, id, secret }) {
  return { 'Request-ID': id, 'Sentry-Hook-Resource': 'issue', 'Sentry-Hook-Timestamp': '1794787700', 'Sentry-Hook-Signature': hmac('sha256', secret, body) }
}

export async function verify({ method, url, headers, body }, { secret }) {
  const request = new Request(url, { method, headers, body })
  return (await WebhookVerificationService.verify(request, { platform: 'sentry', secret })).isValid
}
