// A consumer that verifies with Stripe's own SDK, five minutes tolerated, gets an event that has waited for an hour.
//
// hookonce runs with a clock that is an hour behind while it accepts the event, and with the right one afterwards: what it
// delivers then has waited for an hour, as far as anybody can tell. Without `resign` the SDK must refuse it.
import { execFileSync, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync, openSync, writeSync, closeSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Stripe from 'stripe'

const HOUR = 3600
const secret = 'whsec_0123456789abcdef0123456789abcdef'
const stripe = new Stripe('sk_test_unused')
const folder = mkdtempSync(join(tmpdir(), 'hookonce-late-'))
const program = process.env.HOOKONCE ?? '../../target/release/hookonce'

/** Moves the clock of a process that was started with this file. */
function setClock(seconds) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(seconds))
  const file = openSync(join(folder, 'clock'), 'w+')
  writeSync(file, bytes, 0, 8, 0)
  closeSync(file)
}

/** What the SDK says of each delivery; it is away until it is opened. */
async function consumer() {
  const verdicts = []
  const state = { isOpen: false }
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    if (!state.isOpen) return response.writeHead(503).end()
    try {
      stripe.webhooks.constructEvent(body, request.headers['stripe-signature'], secret, 300)
      verdicts.push('accepted')
      response.writeHead(200).end()
    } catch (error) {
      verdicts.push(error.message.split('\n')[0])
      response.writeHead(400).end()
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { server, verdicts, state, url: `http://127.0.0.1:${server.address().port}` }
}

function start(name, upstream, resign) {
  const config = `listen = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\nupstream = "${upstream}"\n[log]\nformat = "json"\n[drain]\ndelay = "0s"\n` +
    `[store]\nurl = "file:${join(folder, name)}"\n[queue]\nresign = ${resign}\nschedule = ["0s", "1s", "1s"]\n` +
    `[providers.stripe]\npath = "/"\nsecret = "${secret}"\nmode = "queue"\n`
  const file = join(folder, `${name}.toml`)
  writeFileSync(file, config)
  const env = { ...process.env, LD_PRELOAD: join(folder, 'clock.so'), HOOKONCE_TEST_CLOCK: join(folder, 'clock') }
  const child = spawn(program, ['run', '--config', file], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.on('data', (data) => (log += data))
  return { child, log: () => log.split('\n').filter(Boolean).map((line) => JSON.parse(line)) }
}

/** Waits until this gives something. */
async function eventually(what, condition) {
  for (let turn = 0; turn < 300; turn++) {
    const found = condition()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`never came: ${what}`)
}

async function late(name, resign) {
  setClock(-HOUR)
  const { server, verdicts, state, url } = await consumer()
  const { child, log } = start(name, url, resign)
  try {
    const listen = await eventually('serving', () => log().find((line) => line.message === 'serving')?.listen)
    const body = JSON.stringify({ id: 'evt_late', object: 'event', type: 'invoice.paid' })
    const then = Math.floor(Date.now() / 1000) - HOUR
    const signature = createHmac('sha256', secret).update(`${then}.${body}`).digest('hex')
    const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${then},v1=${signature}` }
    const answer = await fetch(`http://${listen}/`, { method: 'POST', headers, body })
    if (answer.headers.get('hookonce-outcome') !== 'queued') throw new Error(`not queued: ${answer.status} ${await answer.text()}`)
    await eventually('a first attempt', () => log().find((line) => line.outcome === 'failed'))
    setClock(0)
    state.isOpen = true
    return await eventually('a verdict', () => verdicts[0])
  } finally {
    child.kill('SIGKILL')
    server.close()
    server.closeAllConnections()
  }
}

try {
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', join(folder, 'clock.so'), '../../tests/support/clock.c'])
  const [resigned, plain] = [await late('resigned', true), await late('plain', false)]
  console.log(`an hour late, signed anew:   ${resigned}`)
  console.log(`an hour late, as it was:     ${plain}`)
  const holds = resigned === 'accepted' && plain.includes('tolerance')
  console.log(holds ? 'ok' : 'FAIL')
  process.exitCode = holds ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
