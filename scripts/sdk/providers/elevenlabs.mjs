import { ElevenLabsClient } from '@elevenlabs/elevenlabs-js'
import { aheadUnlimited, hmac, installed } from '../frame.mjs'

export const sdk = installed('@elevenlabs/elevenlabs-js')
export const secret = 'wsec_0123456789abcdef0123456789abcdef'
export const otherSecret = 'wsec_of_somebody_else'
export const tolerance = 1800
export const signature = { header: 'ElevenLabs-Signature', pattern: /v0=([^,]*)/, encoding: 'hex', prefix: 'v0=' }
export const timestamp = { header: 'ElevenLabs-Signature', pattern: /t=([^,]*)/, unit: 's' }
export const leftOut = { ...aheadUnlimited, 'empty body': 'the SDK parses the body as JSON' }

const client = new ElevenLabsClient({ apiKey: 'unused' })

export const sample = ({ now }) =>
  JSON.stringify({ type: 'post_call_transcription', event_timestamp: now, data: { agent_id: 'agent_1', conversation_id: 'conv_1', status: 'done' } })

export function sign({ body, now, secret }) {
  return { 'ElevenLabs-Signature': `t=${now},v0=${hmac('sha256', secret, [`${now}.`, body])}` }
}

export async function verify({ headers, body }, { secret }) {
  await client.webhooks.constructEvent(body.toString(), headers['elevenlabs-signature'], secret)
  return true
}

export async function* cases({ basic, get, put }) {
  const value = get(basic.headers, 'ElevenLabs-Signature')
  const signed = (text) => ({ ...basic, headers: put(basic.headers, 'ElevenLabs-Signature', text) })
  yield { name: 'only under v1', valid: false, request: signed(value.replace('v0=', 'v1=')) }
  yield { name: 'another version beside it', valid: true, request: signed(`${value},v1=${'0'.repeat(64)}`) }
  yield { name: 'no timestamp', valid: false, request: signed(value.replace(/^t=\d+,/, '')) }
}
