// A tap on the wire before a consumer: passes every byte on in both directions and keeps what came for the consumer, so that
// the consumer itself needs no word of the check in it.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** A tap on a port of its own, for the consumer on `port`. It is as deaf as the consumer once it is closed. */
export async function tap(port) {
  const state = { passed: [], open: new Set() }
  const server = createServer((outer) => {
    const inner = connect(port, '127.0.0.1')
    let rest = Buffer.alloc(0)
    const read = (chunk) => {
      const { whole, left } = requests(Buffer.concat([rest, chunk]))
      state.passed.push(...whole)
      rest = left
    }
    for (const [from, to] of [[outer, inner], [inner, outer]]) {
      state.open.add(from)
      from.setNoDelay(true)
      from.on('data', (chunk) => from === outer && read(chunk))
      from.on('error', () => to.destroy())
      from.on('close', () => state.open.delete(from) && to.destroySoon())
      from.pipe(to)
    }
  })
  const listen = async (at) => {
    server.listen(at, '127.0.0.1')
    await once(server, 'listening')
  }
  await listen(0)
  const own = server.address().port
  return {
    port: own,
    /** The requests that have passed since this was asked last. */
    taken: () => state.passed.splice(0),
    reopen: () => listen(own),
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of state.open) socket.destroy()
      await closed
    },
  }
}

/** The requests that are whole in the bytes of one connection, and the bytes that are left. */
function requests(left) {
  const whole = []
  for (let end; (end = left.indexOf('\r\n\r\n')) >= 0; ) {
    const [line, ...fields] = left.subarray(0, end).toString('latin1').split('\r\n')
    const headers = fields.map((field) => field.match(/^([^:]*):\s*(.*?)\s*$/)).map(([, name, value]) => [name.toLowerCase(), value])
    if (headers.some(([name]) => name === 'transfer-encoding')) throw new Error(`a body without a length: ${line}`)
    const next = end + 4 + Number(headers.find(([name]) => name === 'content-length')?.[1] ?? 0)
    if (left.length < next) break
    const [method, target] = line.split(' ')
    whole.push({ method, target, headers, body: left.subarray(end + 4, next) })
    left = left.subarray(next)
  }
  return { whole, left }
}
