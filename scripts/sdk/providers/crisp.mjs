import { createRequire } from 'node:module'
import { hmac, installed } from '../frame.mjs'

const { Crisp } = createRequire(import.meta.url)('crisp-api')

export const sdk = installed('crisp-api')
export const secret = 'crisp-hook-secret-0123456789abcdef'
export const otherSecret = 'crisp-hook-secret-of-somebody-else'
export const tolerance = null
export const signature = { header: 'X-Crisp-Signature', encoding: 'hex' }
export const timestamp = { header: 'X-Crisp-Request-Timestamp', unit: 'ms' }

const rewritten = 'the SDK signs the parsed body written anew'
export const leftOut = {
  'empty body': 'the SDK parses the body as JSON',
  'pretty-printed': rewritten,
  'pretty-printed with crlf': rewritten,
  'newline at the end': rewritten,
  'escapes and odd numbers': rewritten,
  'body written anew': rewritten,
  'newline put after the body': rewritten,
}

export const sample = ({ id, now }) => JSON.stringify({ website_id: 'website_1', event: 'message:send', data: { fingerprint: id, content: 'hello' }, timestamp: now * 1000 })

// Brackets and semicolon are signed too.
export function sign({ body, now, secret }) {
  const at = `${now * 1000}`
  return { 'X-Crisp-Request-Timestamp': at, 'X-Crisp-Signature': hmac('sha256', secret, [`[${at};`, body, ']']) }
}

// Hooks are only judged once one is listened for.
const hooks = new Crisp()
hooks.setRtmMode(Crisp.RTM_MODES.WebHooks)
await hooks.on('message:send', () => {})

export function verify({ headers, body }, { secret }) {
  return hooks.verifyHook(secret, JSON.parse(body), headers['x-crisp-request-timestamp'], headers['x-crisp-signature'])
}
