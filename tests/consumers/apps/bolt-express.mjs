// A Slack app on Express that answers once its listeners are through, as Bolt's documentation has it for serverless platforms.
import { appendFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import bolt from '@slack/bolt'

const receiver = new bolt.ExpressReceiver({ signingSecret: process.env.SLACK_SIGNING_SECRET, processBeforeResponse: true })
const app = new bolt.App({ receiver, authorize: async () => ({ botToken: 'xoxb-unused', botId: 'B1', botUserId: 'U1' }) })

app.event('app_mention', async ({ body, event }) => {
  // A summary takes longer than Slack waits.
  if (event.text.includes('summarise')) await sleep(4000)
  await appendFile(process.env.DATABASE, `${body.event_id} ${event.type}\n`)
})

await app.start({ port: Number(process.env.PORT), host: '127.0.0.1' })
