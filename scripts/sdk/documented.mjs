// Providers whose documentation prints a secret, a body and the signature of them: no SDK judges, but what is printed must
// come out of the scheme, or the file does not load.
import { get } from './frame.mjs'

/** `sdk` and `verify` for a provider file, and its cases of the printed examples: { secret, body, now, headers, ...asked }. */
export function documented(page, sign, headers, examples) {
  const values = (made) => headers.map((name) => get(made, name))
  const same = (one, other) => values(one).every((value, at) => value !== undefined && value === values(other)[at])
  for (const example of examples) {
    if (!same(sign({ ...example, body: Buffer.from(example.body) }), example.headers)) throw new Error(`${page}: what is printed does not come out`)
  }
  return {
    sdk: `docs:${page}`,
    kind: 'docs-example',
    async *cases({ make, oneByteChanged }) {
      for (const [at, { headers, body, secret, now }] of examples.entries()) {
        const request = await make({ body, secret })
        request.headers = { 'Content-Type': request.headers['Content-Type'], ...headers }
        yield { name: `printed in the documentation, ${at + 1}`, valid: true, request, keys: { secret }, now }
        yield { name: `printed in the documentation, ${at + 1}, body changed`, valid: false, request: { ...request, body: oneByteChanged(request.body) }, keys: { secret }, now }
      }
    },
  }
}
