// The providers: deliveries as they make them, signed by their own SDK where it can sign.
import { execFileSync } from 'node:child_process'
import { request as httpRequest } from 'node:http'
import { text } from 'node:stream/consumers'
import { sign as signForGitHub } from '@octokit/webhooks-methods'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { HOOKONCE } from './machine.mjs'

export const SECRETS = {
  stripe: 'whsec_0123456789abcdef0123456789abcdef',
  github: 'a secret that was given to GitHub',
  slack: '8f742231b10e8888abcd99yyyzzz85a5',
  standard: 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
}

/** What reading and writing JSON again would change: order, spaces, escapes, the way numbers are written. */
const DELICATE = '"b": 1.10, "a":1e2,  "note":"caf\\u00e9 \u00e9 \\/", "big":12345678901234567890'

const seconds = (at) => Math.floor(at / 1000)
const stripe = new Stripe('sk_test_unused')

/** Each makes the delivery, signed `at` (in ms), of an event that is as old, or was `born` before: headers and body. */
export const senders = {
  stripe({ id, at, born = at }) {
    const body = `{"id":"${id}","object":"event","type":"invoice.paid","created":${seconds(born)},"data":{"object":{${DELICATE}}}}`
    const signature = stripe.webhooks.generateTestHeaderString({ payload: body, secret: SECRETS.stripe, timestamp: seconds(at) })
    return delivery(body, [
      ['Accept', '*/*; q=0.5, application/xml'],
      ['Cache-Control', 'no-cache'],
      ['Content-Type', 'application/json; charset=utf-8'],
      ['Stripe-Signature', signature],
      ['User-Agent', 'Stripe/1.0 (+https://stripe.com/docs/webhooks)'],
    ])
  },
  async github({ id }) {
    // No two of GitHub's events are alike to the byte: one that is would be taken for a replay.
    const body =
      `{"action":"opened","issue":{"number":7,"title":"${id}",${DELICATE}},"repository":{"name":"shop","owner":{"login":"acme"}},` +
      `"installation":{"id":1},"sender":{"login":"octocat","type":"User"}}`
    return delivery(body, [
      ['Accept', '*/*'],
      ['Content-Type', 'application/json'],
      ['User-Agent', 'GitHub-Hookshot/044aadd'],
      ['X-GitHub-Delivery', id],
      ['X-GitHub-Event', 'issues'],
      ['X-GitHub-Hook-ID', '292430182'],
      ['X-Hub-Signature-256', await signForGitHub(SECRETS.github, body)],
    ])
  },
  slack({ id, at, born = at, say = 'hello' }) {
    const event = `{"type":"app_mention","user":"U2","text":"${say}","channel":"C1","ts":"1.1",${DELICATE}}`
    return slack(at, `{"type":"event_callback","team_id":"T1","event_id":"${id}","event_time":${seconds(born)},"event":${event}}`)
  },
  slackChallenge: ({ at, challenge }) => slack(at, `{"token":"unused","challenge":"${challenge}","type":"url_verification"}`),
  standard({ id, at }) {
    const body = `{"type":"order.paid","timestamp":"2026-11-16T00:00:00Z","data":{${DELICATE}}}`
    return delivery(body, [
      ['Content-Type', 'application/json'],
      ['User-Agent', 'Svix-Webhooks/1.0'],
      ['webhook-id', id],
      ['webhook-timestamp', String(seconds(at))],
      ['webhook-signature', new Webhook(SECRETS.standard).sign(id, new Date(seconds(at) * 1000), body)],
    ])
  },
}

/** Slack's SDK verifies and does not sign: hookonce does, and Bolt is the judge. */
function slack(at, body) {
  const words = ['sign', '--preset', 'slack', '--secret', SECRETS.slack, '--at', String(seconds(at)), '--data', body]
  const [, ...signed] = execFileSync(HOOKONCE, words).toString().split('\r\n\r\n')[0].split('\r\n')
  const own = signed.map((line) => line.split(': ')).filter(([name]) => name.startsWith('x-slack-'))
  const named = own.map(([name, value]) => [name.replace(/(^|-)[a-z]/g, (first) => first.toUpperCase()), value])
  return delivery(body, [['Accept', '*/*'], ['Content-Type', 'application/json'], ['User-Agent', 'Slackbot 1.0'], ...named])
}

function delivery(body, headers) {
  const bytes = Buffer.from(body)
  const first = [['Host', 'hooks.example.com'], ['Content-Length', String(bytes.length)]]
  // A field may come twice, and its order matters.
  return { headers: [...first, ...headers, ['X-Twice', 'one'], ['X-Twice', 'two, three']], body: bytes }
}

/** The delivery with one byte of its body changed, and the signature as it was. */
export function forged({ headers, body }) {
  const changed = Buffer.from(body)
  changed[body.indexOf('caf')] ^= 1
  return { headers, body: changed }
}

/** Delivers, and gives what came back. A connection that breaks is an error. */
export function deliver(port, path, { headers, body }) {
  return new Promise((resolve, reject) => {
    const to = { host: '127.0.0.1', port, path, method: 'POST', agent: false, timeout: 20_000 }
    const request = httpRequest({ ...to, headers: headers.flat(), setHost: false }, (response) => {
      const { statusCode: status, headers } = response
      text(response).then((body) => resolve({ status, headers, body }), reject)
    })
    request.on('timeout', () => request.destroy(new Error('no answer within 20 s')))
    request.on('error', reject)
    request.end(body)
  })
}
