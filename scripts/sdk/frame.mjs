// What every provider file leans on: the SDK's version, a clock that stands still, headers without regard to case.
import { createHmac, createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { python } from './python.mjs'

export const HERE = dirname(fileURLToPath(import.meta.url))
export const NOW = 1794787700
export const URL_CALLED = 'https://hooks.example.com/path?x=1'

/** `npm:NAME@VERSION` of a package as it is installed, not as somebody believes it to be. */
export function installed(name) {
  const manifest = JSON.parse(readFileSync(join(HERE, 'node_modules', name, 'package.json'), 'utf8'))
  return `npm:${name}@${manifest.version}`
}

/** The HMAC of the parts, one after the other. */
export function hmac(algorithm, key, parts, encoding = 'hex') {
  const mac = createHmac(algorithm, key)
  for (const part of [parts].flat()) mac.update(part)
  return mac.digest(encoding)
}

/** The digest of the parts, one after the other. */
export function digest(algorithm, parts, encoding = 'hex') {
  const hash = createHash(algorithm)
  for (const part of [parts].flat()) hash.update(part)
  return hash.digest(encoding)
}

/** A compact JWT, with whatever header and claims; `sign` makes its signature from what is signed. */
export function jwt(header, claims, sign) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part(header)}.${part(claims)}`
  return `${signed}.${sign(signed)}`
}

const nameIn = (headers, name) => Object.keys(headers).find((key) => key.toLowerCase() === name.toLowerCase())

export const get = (headers, name) => headers[nameIn(headers, name)]

/** The headers with one of them set, or left out where the value is undefined. The others keep their order. */
export function put(headers, name, value) {
  const present = nameIn(headers, name) ?? name
  const changed = { ...headers, [present]: value }
  if (value === undefined) delete changed[present]
  return changed
}

export const mapNames = (headers, change) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [change(name), value]))

/** Runs `judge` with the clock at `now` (unix seconds). */
async function at(now, judge) {
  const Real = globalThis.Date
  const millis = Math.round(now * 1000)
  class Still extends Real {
    constructor(...given) {
      if (given.length) super(...given)
      else super(millis)
    }
    static now() {
      return millis
    }
  }
  globalThis.Date = Still
  try {
    return await judge()
  } finally {
    globalThis.Date = Real
  }
}

/** Some SDKs write to the console on a bad signature; that is no news here. */
async function quietly(judge) {
  const kept = {}
  for (const level of ['log', 'info', 'warn', 'error', 'debug']) {
    kept[level] = console[level]
    console[level] = () => {}
  }
  try {
    return await judge()
  } finally {
    Object.assign(console, kept)
  }
}

/** What the SDK says of a request: true or false, an exception being a no. Header names reach it as Node's server gives them. */
export async function judge(provider, request, keys) {
  const received = { ...request, headers: mapNames(request.headers, (name) => name.toLowerCase()) }
  try {
    return (await at(keys.now, () => quietly(() => provider.verify(received, keys)))) === true
  } catch (error) {
    if (process.env.SDK_ERRORS) process.stderr.write(`${error.stack ?? error}\n`)
    return false
  }
}

/** The key material that a provider file exports. */
export const keysOf = ({ secret, publicKey, privateKey, keyId }) => ({ secret, publicKey, privateKey, keyId })

/** A request as the provider would send it; whatever is not given is as in the plainest case. */
export async function signed(provider, given = {}) {
  const asked = { method: 'POST', url: URL_CALLED, now: NOW, id: 'evt_0001', ...keysOf(provider), ...given }
  asked.body = Buffer.from(given.body ?? sample(provider, asked))
  const type = given.contentType ?? provider.contentType ?? 'application/json'
  const made = await at(asked.now, () => provider.sign(asked))
  const headers = made.body === undefined ? made : made.headers
  return {
    method: asked.method,
    url: asked.url,
    headers: { 'Content-Type': type, ...headers },
    body: Buffer.from(made.body ?? asked.body),
  }
}

/** A body as the provider might send it. */
export function sample(provider, { id, now }) {
  if (provider.sample) return provider.sample({ id, now })
  return JSON.stringify({ id, type: 'thing.created', created: now, data: { id: 'thing_1', amount: 2000, currency: 'usd' } })
}

/** For `leftOut` of the many SDKs that only ask how old a request is. */
export const aheadUnlimited = {
  'in the future, beyond the tolerance': 'the SDK has no limit ahead',
  'far in the future': 'the SDK has no limit ahead',
}

/** The names of the provider files, sorted. */
export function providers() {
  const files = readdirSync(join(HERE, 'providers')).filter((file) => /\.(mjs|py)$/.test(file))
  return [...new Set(files.map((file) => file.replace(/\.(mjs|py)$/, '')))].sort()
}

/** A provider file, in whichever language it is written. */
export async function load(name) {
  const file = join(HERE, 'providers', `${name}.mjs`)
  const found = existsSync(file) ? await import(file) : await python(name)
  return { name, ...found }
}
