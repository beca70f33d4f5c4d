import { context, node, sdk } from '../n8n.mjs'

const { verifySignature } = node('Figma/FigmaTriggerHelpers.js')

export { sdk }
export const kind = 'source'
export const secret = 'figma-passcode-0123456789abcdef'
export const otherSecret = 'figma-passcode-of-somebody-else'
export const tolerance = null
// A passcode in the body, not a signature: the rest of the body may be anything.
export const ownBodies = true

export function sign({ now, secret, passcode = secret, event = 'FILE_UPDATE' }) {
  return { headers: {}, body: JSON.stringify({ event_type: event, file_key: 'file_1', passcode, timestamp: new Date(now * 1000).toISOString(), webhook_id: '22' }) }
}

export function verify(request, { secret }) {
  return verifySignature.call(context(request, { data: { webhookSecret: secret } }))
}

export async function* cases({ make, basic }) {
  yield { name: 'another event', valid: true, request: await make({ event: 'FILE_COMMENT' }) }
  yield { name: 'another passcode', valid: false, request: await make({ passcode: otherSecret }) }
  yield { name: 'passcode cut short', valid: false, request: await make({ passcode: secret.slice(0, -1) }) }
  yield { name: 'passcode in upper case', valid: false, request: await make({ passcode: secret.toUpperCase() }) }
  yield { name: 'passcode empty', valid: false, request: await make({ passcode: '' }) }
  yield { name: 'passcode null', valid: false, request: await make({ passcode: null }) }
  yield { name: 'passcode in a list', valid: false, request: await make({ passcode: [secret] }) }
  yield { name: 'passcode missing', valid: false, request: { ...basic, body: Buffer.from('{"event_type":"PING"}') } }
  yield { name: 'body empty', valid: false, request: { ...basic, body: Buffer.alloc(0) } }
}
