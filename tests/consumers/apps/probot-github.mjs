// A GitHub App as `probot run` loads it; the framework serves, verifies and answers.
import { appendFile } from 'node:fs/promises'

export default (app) => {
  app.on('issues.opened', async (context) => {
    await appendFile(process.env.DATABASE, `${context.id} ${context.name}.${context.payload.action}\n`)
  })
}
