// Packages that are installed without their dependencies: see bare.txt.
import { readFileSync } from 'node:fs'
import Module, { createRequire } from 'node:module'
import { join } from 'node:path'
import { HERE } from './frame.mjs'

const folder = (name) => join(HERE, 'bare', 'node_modules', name)

/** As `installed`, for a bare package. */
export function bare(name) {
  return `npm:${name}@${JSON.parse(readFileSync(join(folder(name), 'package.json'), 'utf8')).version}`
}

// Whatever is asked of it, it is there and does nothing. Checking a signature needs none of what it stands in for.
const standIn = new Proxy(function () {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => '' : standIn),
  apply: () => standIn,
  construct: () => standIn,
})

/** A file of a bare package; what it requires of `absent` is stood in for. */
export function load(name, file, absent) {
  const real = Module._load
  Module._load = (asked, ...rest) => (absent.includes(asked) ? standIn : real(asked, ...rest))
  try {
    return createRequire(import.meta.url)(join(folder(name), file))
  } finally {
    Module._load = real
  }
}
