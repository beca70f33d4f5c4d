import { WebhookHandler } from '@liveblocks/node'
import { installed } from '../frame.mjs'
import { standard } from '../standard.mjs'

export const sdk = installed('@liveblocks/node')
export const secret = 'whsec_bGl2ZWJsb2Nrcy1zZWNyZXQtMDEyMzQ1Njc4OQ=='
export const otherSecret = 'whsec_c29tZWJvZHktZWxzZS1zLXNlY3JldC0wMTIzNDU='
export const { tolerance, signature, timestamp, signedHeaders, sign, cases } = standard()
export const leftOut = {
  'minimal body': 'the SDK wants a type of event that it knows',
  'empty body': 'the SDK parses the body as JSON',
  'another prefix': 'the SDK does not look at the version',
  'only under v1a': 'the SDK does not look at the version',
  'only under v2': 'the SDK does not look at the version',
}

export const sample = ({ now }) =>
  JSON.stringify({ type: 'storageUpdated', data: { projectId: 'p_1', roomId: 'room_1', updatedAt: new Date(now * 1000).toISOString() } })

export function verify({ headers, body }, { secret }) {
  new WebhookHandler(secret).verifyRequest({ headers, rawBody: body.toString() })
  return true
}
