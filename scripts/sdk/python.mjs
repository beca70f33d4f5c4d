// Provider files in Python: the same interface, spoken as one JSON object a line with `bridge.py`.
import { spawn } from 'node:child_process'
import { join, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'

const HERE = dirname(fileURLToPath(import.meta.url))

/** Starts the provider's Python file and answers for it. A file in JavaScript may use this for its `verify` alone. */
export async function python(name) {
  const child = spawn(join(HERE, '.venv', 'bin', 'python'), [join(HERE, 'bridge.py'), name], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  // Neither the process nor its pipes keep us from ending; the bridge ends with its input.
  child.unref()
  child.stdin.unref?.()
  child.stdout.unref?.()

  async function ask(question) {
    child.stdout.ref?.()
    child.stdin.write(`${JSON.stringify(question)}\n`)
    const { value, done } = await answers.next()
    child.stdout.unref?.()
    if (done) throw new Error(`providers/${name}.py ended early`)
    const answer = JSON.parse(value)
    if (answer.error) throw new Error(`providers/${name}.py: ${answer.error}`)
    return answer
  }

  const carried = ({ body, ...rest }) => ({ ...rest, body_b64: body.toString('base64') })
  const { exports } = await ask({ ask: 'exports' })
  return {
    ...exports,
    async sign(asked) {
      const { headers, body_b64: body } = await ask({ ask: 'sign', asked: carried(asked) })
      return body === undefined ? headers : { headers, body: Buffer.from(body, 'base64') }
    },
    async verify(request, keys) {
      return (await ask({ ask: 'verify', request: carried(request), keys })).valid
    },
  }
}
