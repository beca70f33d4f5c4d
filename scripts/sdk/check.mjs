// Is what `hookonce send` sends accepted by the providers' own SDKs? `node check.mjs [NAME...]`; see scripts/sdk-check.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { oneByteChanged } from './battery.mjs'
import { URL_CALLED, judge, keysOf, load, providers } from './frame.mjs'

const HOOKONCE = process.env.HOOKONCE

/** A server on the loopback that keeps what it received. */
async function listen() {
  const received = []
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const headers = {}
    for (let at = 0; at < request.rawHeaders.length; at += 2) headers[request.rawHeaders[at]] = request.rawHeaders[at + 1]
    received.push({ method: request.method, path: request.url, headers, body: Buffer.concat(chunks) })
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { received, port: server.address().port, close: () => server.close() }
}

/** What to call `hookonce send` with for a provider. */
function words(provider, to, folder) {
  const words = ['send', '--preset', provider.preset ?? provider.name, '--to', to]
  if (provider.privateKey) {
    const file = join(folder, `${provider.name}.pem`)
    writeFileSync(file, provider.privateKey, { mode: 0o600 })
    words.push('--private-key', file)
  } else {
    words.push('--secret', provider.secret)
  }
  if (provider.keyId) words.push('--key-id', provider.keyId)
  if (provider.signsUrl) words.push('--public-url', URL_CALLED)
  return [...words, ...(provider.sendWords ?? [])]
}

async function run(words) {
  const child = spawn(HOOKONCE, words, { stdio: ['ignore', 'pipe', 'pipe'] })
  const said = []
  for (const pipe of [child.stdout, child.stderr]) pipe.on('data', (chunk) => said.push(chunk))
  const slow = setTimeout(() => child.kill(), 20_000)
  const [code] = await once(child, 'close')
  clearTimeout(slow)
  return { code, said: Buffer.concat(said).toString().trim().split('\n').slice(-2).join(' / ') }
}

/** Whether the preset says that the body is not signed, or a part of it is not. */
function isBodyUnsigned(provider) {
  if (provider.changed) return false
  const { stdout } = spawnSync(HOOKONCE, ['providers', provider.preset ?? provider.name, '--json'])
  return 'unsigned' in JSON.parse(stdout)
}

/** Nothing, or what is wrong. */
async function check(provider, folder) {
  const server = await listen()
  try {
    const to = `http://127.0.0.1:${server.port}/path?x=1`
    const { code, said } = await run(words(provider, to, folder))
    if (server.received.length === 0) return `nothing was sent (exit ${code}): ${said}`
    const request = server.received[0]
    request.url = provider.signsUrl ? URL_CALLED : to
    const keys = { ...keysOf(provider), now: Math.floor(Date.now() / 1000) }
    if (!(await judge(provider, request, keys))) return 'the SDK refuses what was sent'
    // A token, or a signature over something else, says nothing of the body; the preset says so.
    if (isBodyUnsigned(provider)) return
    const changed = { ...request, body: (provider.changed ?? oneByteChanged)(request.body) }
    if (await judge(provider, changed, keys)) return 'the SDK accepts another body too'
  } finally {
    server.close()
  }
}

const folder = mkdtempSync(join(tmpdir(), 'hookonce-sdk-'))
let passed = 0
let failed = 0
let skipped = 0
const named = process.argv.slice(2)
for (const name of named.length ? named : providers()) {
  const provider = await load(name)
  if (provider.notSent) {
    skipped += 1
    console.log(`skip ${name.padEnd(20)} ${provider.notSent}`)
    continue
  }
  const wrong = await check(provider, folder)
  if (wrong) failed += 1
  else passed += 1
  console.log(`${wrong ? 'FAIL' : 'ok  '} ${name.padEnd(20)} ${provider.sdk}${wrong ? `: ${wrong}` : ''}`)
}
rmSync(folder, { recursive: true })
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`)
process.exit(failed ? 1 : 0)
