// The consumers: how each is started, who sends to it, and what hookonce is told of it. The apps are in `apps/`.
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HERE, ROOT } from './machine.mjs'
import { SECRETS, senders } from './senders.mjs'

const npm = (name) => `${name} ${JSON.parse(readFileSync(join(HERE, 'node_modules', name, 'package.json'), 'utf8')).version}`
const pinned = readFileSync(join(HERE, 'requirements.txt'), 'utf8')
const pypi = (name) => `${name} ${pinned.match(new RegExp(`^${name}==(.+)$`, 'm'))[1]}`
const node = (file, env) => () => ({ command: process.execPath, words: [join('apps', file)], env })
const gunicorn = (...more) => (port) => ({
  command: join(ROOT, 'target/tools/consumers/bin/gunicorn'),
  words: ['--bind', `127.0.0.1:${port}`, ...more, 'flask_standard:app'],
  cwd: join(HERE, 'apps'),
  env: { WEBHOOK_SECRET: SECRETS.standard, PYTHONDONTWRITEBYTECODE: '1' },
})
const slackSecret = { SLACK_SIGNING_SECRET: SECRETS.slack }

const flask = {
  sender: senders.standard,
  path: '/webhooks/orders?shop=7&x=%2F',
  provider: `[providers.standard-webhooks]\npath = "/webhooks/orders"\nsecret = "${SECRETS.standard}"\n`,
  isTimed: true,
}

export const express = {
  name: `Express (${npm('express')}, ${npm('stripe')})`,
  program: node('express-stripe.mjs', { STRIPE_WEBHOOK_SECRET: SECRETS.stripe }),
  sender: senders.stripe,
  path: '/webhooks/stripe?endpoint=live&x=%2F',
  provider: `[providers.stripe]\npath = "/webhooks/stripe"\nsecret = "${SECRETS.stripe}"\n`,
  isTimed: true,
}

export const probot = {
  name: `Probot (${npm('probot')})`,
  program: () => ({
    command: process.execPath,
    words: [join('node_modules', '.bin', 'probot'), 'run', './apps/probot-github.mjs'],
    env: { HOST: '127.0.0.1', APP_ID: '1', PRIVATE_KEY: privateKey(), WEBHOOK_SECRET: SECRETS.github, LOG_LEVEL: 'error' },
  }),
  sender: senders.github,
  path: '/api/github/webhooks?x=%2F',
  provider: `[providers.github]\npath = "/api/github/webhooks"\nsecret = "${SECRETS.github}"\n`,
  // A signature of GitHub's says nothing of its age.
  isTimed: false,
}

export const bolt = {
  name: `Slack Bolt (${npm('@slack/bolt')}, its HTTPReceiver)`,
  program: node('bolt-slack.mjs', slackSecret),
  sender: senders.slack,
  path: '/slack/events',
  provider: `[providers.slack]\npath = "/slack/events"\nsecret = "${SECRETS.slack}"\n`,
  isTimed: true,
  // It says 200 before its listeners run: that one of them fails nobody outside learns.
  answersFirst: true,
}

export const boltExpress = {
  ...bolt,
  name: `Slack Bolt (${npm('@slack/bolt')}, its ExpressReceiver, processBeforeResponse)`,
  program: node('bolt-express.mjs', slackSecret),
  answersFirst: false,
}

export const flaskSync = {
  ...flask,
  name: `Flask (${pypi('flask')}, ${pypi('gunicorn')}, ${pypi('standardwebhooks')})`,
  program: gunicorn('--workers', '2'),
}

export const flaskThreads = {
  ...flask,
  name: 'Flask (gunicorn with threads, which keep connections)',
  program: gunicorn('--threads', '8'),
}

/** An app's key, as GitHub gives it out. Made once. */
function privateKey() {
  privateKey.made ??= generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs1', format: 'pem' })
  return privateKey.made
}
