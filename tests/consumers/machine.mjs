// The processes of a check: a consumer, a Redis, hookonce. Each has a folder below one that goes away at the end.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export const HERE = dirname(fileURLToPath(import.meta.url))
export const ROOT = join(HERE, '../..')
export const HOOKONCE = process.env.HOOKONCE
const folder = mkdtempSync(join(tmpdir(), 'hookonce-consumers-'))
const running = new Set()

export function folderFor(name) {
  const made = join(folder, name)
  mkdirSync(made, { recursive: true })
  return made
}

/** Whatever was started and is still there is ended, and nothing is left behind. */
export async function tidyUp() {
  for (const process of running) await process.stop('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
}

/** Waits until this gives something. */
export async function eventually(what, condition) {
  for (let turn = 0; turn < 600; turn++) {
    const found = await condition()
    if (found) return found
    await sleep(50)
  }
  throw new Error(`never came: ${what}`)
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

const answers = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

/** A process whose words are kept; they are shown when it ends of itself. */
function start(name, command, words, options = {}) {
  const log = join(folder, `${name}-${running.size}.log`)
  const out = openSync(log, 'w')
  const child = spawn(command, words, { ...options, stdio: ['ignore', out, out] })
  closeSync(out)
  const ended = once(child, 'close')
  const started = {
    log: () => readFileSync(log, 'utf8'),
    async stop(signal = 'SIGTERM') {
      running.delete(started)
      child.kill(signal)
      const slow = setTimeout(() => child.kill('SIGKILL'), 10_000)
      await ended
      clearTimeout(slow)
    },
    /** Waits until something is there, and fails at once where the process has ended. */
    until: (what, condition) =>
      eventually(`${name}: ${what}`, () => {
        if (child.exitCode !== null) throw new Error(`${name} has ended:\n${started.log()}`)
        return condition()
      }),
  }
  running.add(started)
  return started
}

/** A consumer on this port. */
export async function startConsumer(consumer, port, database) {
  const { command, words, env = {}, cwd = HERE } = consumer.program(port)
  const started = start(consumer.name.split(' ')[0], command, words, {
    cwd,
    env: { ...process.env, ...env, PORT: String(port), DATABASE: database },
  })
  await started.until('it listens', () => answers(port))
  return started
}

/** A Redis that writes before it confirms: what queue mode asks for. */
export async function startRedis() {
  const port = await freePort()
  const words = ['--port', port, '--bind', '127.0.0.1', '--dir', folderFor('redis'), '--save', '', '--appendonly', 'yes']
  const started = start('redis', 'redis-server', [...words.map(String), '--appendfsync', 'always'])
  await started.until('it listens', () => answers(port))
  return { ...started, url: `redis://127.0.0.1:${port}` }
}

/** hookonce with this configuration, in front of `upstream`. With `clock`, its time can be moved. */
export async function startHookonce(name, { redis, upstream, namespace, sections, clock }) {
  const file = join(folderFor('hookonce'), `${name}.toml`)
  writeFileSync(
    file,
    `listen = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\nupstream = "http://127.0.0.1:${upstream}"\n` +
      `[log]\nformat = "json"\n[drain]\ndelay = "0s"\n[store]\nurl = "${redis.url}"\nnamespace = "${namespace}"\n${sections}`,
  )
  const env = clock ? { ...process.env, LD_PRELOAD: clock.library, HOOKONCE_TEST_CLOCK: clock.file } : process.env
  const started = start(name, HOOKONCE, ['run', '--config', file], { env })
  const lines = () => started.log().split('\n').filter(Boolean).map((line) => JSON.parse(line))
  const serving = await started.until('it serves', () => lines().find((line) => line.message === 'serving'))
  return { ...started, lines, port: Number(serving.listen.split(':').pop()) }
}

/** A clock for hookonce that this check moves, and no other process has. */
export function movableClock() {
  const clock = { library: join(folder, 'clock.so'), file: join(folder, 'clock') }
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', clock.library, join(ROOT, 'tests/support/clock.c')])
  const move = (seconds) => {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(seconds))
    const file = openSync(clock.file, 'w+')
    writeSync(file, bytes, 0, 8, 0)
    closeSync(file)
  }
  return { ...clock, move }
}
