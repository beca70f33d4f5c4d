// A Slack app with Bolt's own receiver, which acknowledges an event before its listeners run.
import { appendFile } from 'node:fs/promises'
import bolt from '@slack/bolt'

const app = new bolt.App({
  signingSecret: process.env.SLACK_SIGNING_SECRET,
  authorize: async () => ({ botToken: 'xoxb-unused', botId: 'B1', botUserId: 'U1' }),
})

app.event('app_mention', async ({ body, event }) => {
  await appendFile(process.env.DATABASE, `${body.event_id} ${event.type}\n`)
})

await app.start({ port: Number(process.env.PORT), host: '127.0.0.1' })
