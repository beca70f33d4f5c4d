import { AwsLambdaReceiver } from '@zoom/rivet/users'
import { hmac, installed } from '../frame.mjs'

export const sdk = installed('@zoom/rivet')
export const recorded = 'elsewhere'
export const secret = 'zoom-secret-token-0123'
export const tolerance = null

export const sample = ({ id, now }) => JSON.stringify({ event: 'meeting.started', event_ts: now * 1000, payload: { account_id: 'a', object: { id } } })

export function sign({ body, now, secret }) {
  return { 'x-zm-request-timestamp': `${now}`, 'x-zm-signature': `v0=${hmac('sha256', secret, [`v0:${now}:`, body])}` }
}

/** The SDK verifies inside its receivers alone; the one for Lambda needs no server. */
export async function verify({ headers, body }, { secret }) {
  const receiver = new AwsLambdaReceiver({ webhooksSecretToken: secret })
  receiver.init({ eventEmitter: { emit: async () => {} } })
  const answer = await receiver.start()({ headers, body: body.toString(), isBase64Encoded: false }, {})
  return answer.statusCode === 200
}
