// Asks the SDKs again about the cases that are recorded: `node replay.mjs [NAME...]`. For a newer SDK, and for the cases that
// were recorded elsewhere.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HERE, judge, load, providers, signed } from './frame.mjs'

let differ = 0
const named = process.argv.slice(2)
for (const name of named.length ? named : providers()) {
  const provider = await load(name)
  const path = join(HERE, '..', '..', 'tests', 'fixtures', 'vectors', `${name}.jsonl`)
  const cases = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').map((line) => JSON.parse(line)) : []
  const others = []
  for (const one of cases) {
    const request = { method: one.method, url: one.url, headers: one.headers, body: Buffer.from(one.body_b64, 'base64') }
    const keys = {
      secret: one.secret ?? undefined,
      publicKey: one.public_key ?? undefined,
      keyId: one.key_id ?? undefined,
      additionalSecrets: one.additional_secrets ?? undefined,
      nextSecret: one.next_secret ?? undefined,
      now: one.oracle_now,
    }
    if ((await judge(provider, request, keys)) !== one.valid) others.push(`${one.sdk}: ${one.name}: recorded as ${one.valid}`)
  }
  const own = await judge(provider, await signed(provider), { ...provider, now: 1794787700 })
  if (!own) others.push('what its own `sign` signs is refused')
  differ += others.length
  console.log(`${name}: ${provider.sdk}: ${cases.length - others.length} of ${cases.length} as recorded`)
  for (const other of others) console.log(`    ${other}`)
}
process.exit(differ ? 1 : 0)
