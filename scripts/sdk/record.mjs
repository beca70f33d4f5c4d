// Records tests/fixtures/vectors/NAME.jsonl: `node record.mjs [NAME...]`, all of them where none is named.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { battery } from './battery.mjs'
import { HERE, NOW, judge, keysOf, load, providers } from './frame.mjs'

const VECTORS = join(HERE, '..', '..', 'tests', 'fixtures', 'vectors')

/** The cases of a provider as the SDK judged them, and where the SDK and a strict reader differ without a word on why. */
async function judged(provider) {
  const leftOut = provider.leftOut ?? {}
  const cases = []
  const trouble = []
  const seen = new Set()
  const names = new Set()
  for await (const made of battery(provider)) {
    const keys = { ...keysOf(provider), ...made.keys, now: made.now ?? NOW }
    const verdict = await judge(provider, made.request, keys)
    const reason = Object.keys(leftOut).find((name) => name === made.name)
    if (names.has(made.name)) trouble.push(`two cases are called «${made.name}»`)
    names.add(made.name)
    if (reason) seen.add(reason)
    if (reason && verdict === made.valid) trouble.push(`«${made.name}» is left out, but the SDK agrees`)
    if (!reason && verdict !== made.valid) trouble.push(`«${made.name}»: the SDK says ${verdict}`)
    if (!reason) cases.push(line(provider, made, keys, verdict))
  }
  for (const name of Object.keys(leftOut)) if (!seen.has(name)) trouble.push(`no case is called «${name}»`)
  return { cases, trouble }
}

function line(provider, { name, request, keys: own = {} }, keys, valid) {
  for (const [header, value] of Object.entries(request.headers)) {
    if (typeof value !== 'string') throw new Error(`${name}: the header ${header} is no string`)
  }
  return {
    provider: provider.name,
    sdk: provider.sdk,
    name,
    kind: provider.kind,
    secret: keys.secret ?? null,
    additional_secrets: own.additionalSecrets,
    next_secret: own.nextSecret,
    key_id: keys.keyId,
    public_key: keys.publicKey ?? null,
    method: request.method,
    url: request.url,
    headers: request.headers,
    body_b64: request.body.toString('base64'),
    valid,
    oracle_now: keys.now,
    tolerance_s: provider.tolerance ?? null,
    signed_by: provider.signedBy ?? 'reference',
  }
}

/** Lines that somebody else recorded have a field that ours have not; they stay. */
function fromElsewhere(path) {
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8').split('\n').filter((text) => text && 'contested' in JSON.parse(text))
}

let failed = 0
const named = process.argv.slice(2)
for (const name of named.length ? named : providers()) {
  const provider = await load(name)
  if (provider.recorded === 'elsewhere') {
    if (named.length) console.log(`${name}: its cases were recorded elsewhere`)
    continue
  }
  const { cases, trouble } = await judged(provider)
  if (trouble.length) {
    failed += 1
    console.log(`${name}: ${provider.sdk}: not recorded`)
    for (const what of trouble) console.log(`    ${what}`)
    continue
  }
  const path = join(VECTORS, `${name}.jsonl`)
  const lines = [...fromElsewhere(path), ...cases.map((one) => JSON.stringify(one))]
  writeFileSync(path, lines.map((text) => `${text}\n`).join(''))
  const right = cases.filter((one) => one.valid).length
  console.log(`${name}: ${provider.sdk}: ${cases.length} cases, ${right} valid, ${Object.keys(provider.leftOut ?? {}).length} left out`)
}
process.exit(failed ? 1 : 0)
