// Consumers that check signatures themselves, and know nothing of hookonce, work behind it as they did before: see README.md.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { bolt, boltExpress, express, flaskSync, flaskThreads, probot } from './consumers.mjs'
import { eventually, movableClock, startRedis, tidyUp } from './machine.mjs'
import { Scene } from './scene.mjs'
import { deliver, forged, senders } from './senders.mjs'

const HOUR = 3600
const COPIES = 10
/** How long its threads keep a connection that is idle, in ms. Its other workers keep none. */
const GUNICORN_KEEPS = 2000
const counted = { holds: 0, fails: 0 }

/** Says whether something holds, in one line, and goes on either way. What passed the tap before is no longer of interest. */
async function holds(scene, statement, proof) {
  scene.tap.taken()
  try {
    const seen = await proof()
    counted.holds += 1
    console.log(`  ok    ${statement}${seen ? ` (${seen})` : ''}`)
  } catch (error) {
    counted.fails += 1
    console.log(`  FAIL  ${statement}\n${String(error.message).replace(/^/gm, '        ')}`)
  }
}

const isSuccess = ({ status }) => status >= 200 && status < 300
const shown = ({ status, headers, body }) =>
  [status, headers['content-type'], body.split('\n')[0].slice(0, 40)].filter(Boolean).join(' ')
const outcomes = (answers) => {
  const tally = {}
  for (const { headers } of answers) tally[headers['hookonce-outcome']] = (tally[headers['hookonce-outcome']] ?? 0) + 1
  return Object.entries(tally).map(([outcome, count]) => `${count} ${outcome}`).sort().join(', ')
}

/** An answer without its framing, and what belongs to the connection it came on, to the moment, and to hookonce. */
function withoutHop({ status, headers, body }) {
  const leftOut = /^(connection|keep-alive|content-length|transfer-encoding|date|hookonce-outcome)$/
  const left = Object.entries(headers).filter(([name]) => !leftOut.test(name))
  return { status, headers: Object.fromEntries(left), body }
}

/** A request without what hookonce adds and what belongs to the connection. Fields of one name keep their order. */
function withoutOurs({ method, target, headers, body }) {
  const left = headers.filter(([name]) => !/^(hookonce-|x-forwarded-|connection$)/.test(name))
  const byName = [...left].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
  return { method, target, headers: byName, body: body.toString('hex') }
}

const header = (request, wanted) => request.headers.find(([name]) => name === wanted)?.[1]

/** The only request that has passed the tap. */
function only(requests) {
  assert.equal(requests.length, 1, `the app was asked ${requests.length} times`)
  return requests[0]
}

/** What the consumer does without hookonce: the measure of all that follows. */
async function alone(scene) {
  const before = { delivery: await scene.make('evt_same') }
  await holds(scene, 'alone: takes a signed delivery', async () => {
    before.answer = await scene.deliver(before.delivery)
    assert.ok(isSuccess(before.answer), shown(before.answer))
    await eventually('its effect', () => scene.effects('evt_same') === 1)
    before.request = only(scene.tap.taken())
    return shown(before.answer)
  })
  await holds(scene, 'alone: its own check refuses a changed body', async () => {
    const answer = await scene.deliver(forged(before.delivery))
    assert.ok(answer.status >= 400 && answer.status < 500, shown(answer))
    return shown(answer)
  })
  if (scene.consumer.isTimed) {
    await holds(scene, 'alone: its own check refuses a signature that is an hour old', async () => {
      const answer = await scene.deliver(await scene.make('evt_old', Date.now() - HOUR * 1000))
      assert.ok(answer.status >= 400 && answer.status < 500, shown(answer))
      return shown(answer)
    })
  }
  before.failing = await scene.make('evt_failing')
  before.failure = await fail(scene, before.failing)
  return before
}

/** Delivers while the database is away, until the app has said that it is. */
function fail(scene, delivery) {
  const complaints = () => scene.app.log().split(/no such file or directory/i).length
  const before = complaints()
  return scene.withoutDatabase(async () => {
    const answer = await scene.deliver(delivery)
    await eventually('the error of the app', () => complaints() > before)
    return answer
  })
}

async function behind(scene, before) {
  scene.tap.taken()
  const answer = await scene.deliver(before.delivery)
  const requests = scene.tap.taken()
  await holds(scene, 'behind hookonce: the same status, headers and body come back', async () => {
    assert.deepEqual(withoutHop(answer), withoutHop(before.answer))
    assert.equal(answer.headers['hookonce-outcome'], 'forwarded')
  })
  await holds(scene, 'behind hookonce: the app is sent the same method, path, query, Host, headers and bytes', async () => {
    const request = only(requests)
    assert.deepEqual(withoutOurs(request), withoutOurs(before.request))
    assert.equal(header(request, 'hookonce-attempt'), '1')
    assert.equal(header(request, 'hookonce-maybe-duplicate'), undefined)
    await eventually('its effect', () => scene.effects('evt_same') === 2)
    return `${withoutOurs(request).headers.length} headers, ${request.body.length} bytes`
  })
  await holds(scene, `${COPIES} copies at once: the app runs once, every sender hears success`, async () => {
    const delivery = await scene.make('evt_copies')
    const answers = await Promise.all(Array.from({ length: COPIES }, () => scene.deliver(delivery)))
    answers.push(await scene.deliver(delivery))
    for (const answer of answers) assert.ok(isSuccess(answer), shown(answer))
    await eventually('its effect', () => scene.effects('evt_copies') > 0)
    only(scene.tap.taken())
    assert.equal(scene.effects('evt_copies'), 1)
    return `${outcomes(answers)}; one came later`
  })
  await holds(scene, 'a changed body is refused, and the app never sees it', async () => {
    const answer = await scene.deliver(forged(await scene.make('evt_forged')))
    assert.deepEqual([answer.status, answer.headers['hookonce-outcome']], [401, 'rejected'])
    assert.equal(scene.tap.taken().length, 0)
    assert.equal(scene.effects('evt_forged'), 0)
    return shown(answer)
  })
  await (scene.consumer.answersFirst ? failsUnseen : failsOnce)(scene, before)
}

async function failsOnce(scene, before) {
  await holds(scene, 'a handler that throws: the sender gets its answer, and its retry goes through', async () => {
    const failed = await fail(scene, before.failing)
    assert.deepEqual(withoutHop(failed), withoutHop(before.failure))
    const [again, later] = [await scene.deliver(before.failing), await scene.deliver(before.failing)]
    assert.ok(isSuccess(again) && isSuccess(later), `${shown(again)}, ${shown(later)}`)
    const told = (request) => [header(request, 'hookonce-attempt'), header(request, 'hookonce-maybe-duplicate')]
    const attempts = scene.tap.taken().map(told)
    assert.deepEqual(attempts, [['1', undefined], ['2', undefined]])
    assert.equal(scene.effects('evt_failing'), 1)
    return `${failed.status}, ${again.status}, then ${outcomes([later])}; one effect`
  })
}

async function failsUnseen(scene, before) {
  await holds(scene, 'a listener that throws after Bolt has said 200 is not tried again: as before', async () => {
    const answer = await fail(scene, before.failing)
    assert.deepEqual(withoutHop(answer), withoutHop(before.failure))
    const again = await scene.deliver(before.failing)
    only(scene.tap.taken())
    assert.equal(scene.effects('evt_failing'), 0)
    return `${answer.status}, then ${outcomes([again])}`
  })
}

/** An event that is accepted while the app is away and delivered later, by the clock an hour later. */
async function queued(scene, clock) {
  const { isTimed } = scene.consumer
  const late = isTimed ? HOUR : 0
  const then = Date.now() - late * 1000
  clock.move(-late)
  await scene.stopApp()
  const schedule = `[queue]\nschedule = ["0s"${', "1s"'.repeat(30)}]\n`
  await scene.putHookonce({ mode: 'queue', more: 'mode = "queue"\n', sections: schedule, clock })
  const delivery = await scene.make('evt_queued', then)
  await holds(scene, 'queue mode: taken while the app is away', async () => {
    const answers = [await scene.deliver(delivery), await scene.deliver(delivery)]
    for (const answer of answers) assert.equal(answer.status, 200)
    assert.equal(outcomes(answers), '1 duplicate, 1 queued')
    await eventually('an attempt', () => scene.hookonce.lines().some((line) => line.outcome === 'failed'))
    return shown(answers[0])
  })
  const what = isTimed ? 'an hour later, signed anew: its own check accepts it' : 'delivered as it was: its own check accepts it'
  await holds(scene, `queue mode: ${what}`, async () => {
    clock.move(0)
    await scene.startApp()
    await eventually('its effect', () => scene.effects('evt_queued') > 0)
    const request = only(scene.tap.taken())
    const sent = new Map(delivery.headers.map(([name, value]) => [name.toLowerCase(), value]))
    const changed = request.headers.filter(([name, value]) => sent.has(name) && name !== 'x-twice' && sent.get(name) !== value)
    assert.deepEqual(request.body, delivery.body)
    assert.equal(changed.length > 0, isTimed, `changed: ${changed}`)
    assert.equal(header(request, 'hookonce-maybe-duplicate'), undefined)
    assert.ok(isSuccess(await scene.deliver(await scene.make('evt_queued', Date.now(), { born: then }))))
    assert.equal(scene.effects('evt_queued'), 1)
    const names = changed.map(([name]) => name).join(', ')
    return isTimed ? `only ${names} changed; one effect` : 'one effect'
  })
  await scene.takeHookonceAway()
}

/** Alone, behind hookonce, and from its queue; `more` is for what only one consumer does. */
async function examine(consumer, redis, clock, more = async () => {}) {
  console.log(consumer.name)
  const scene = await Scene.open(consumer, redis)
  const before = await alone(scene)
  await scene.putHookonce()
  await behind(scene, before)
  await more(scene)
  await scene.takeHookonceAway()
  await queued(scene, clock)
  await scene.close()
}

const challenge = () => senders.slackChallenge({ at: Date.now(), challenge: '3eZbrw1aB10FEMAGZd4FyFQ' })

async function handshakes(scene) {
  await holds(scene, 'url_verification: hookonce answers the challenge, and the app is not asked', async () => {
    const answer = await scene.deliver(challenge())
    assert.deepEqual([answer.status, answer.body], [200, '3eZbrw1aB10FEMAGZd4FyFQ'])
    assert.equal(scene.tap.taken().length, 0)
    return shown(answer)
  })
  await scene.takeHookonceAway()
  await scene.putHookonce({ more: '[providers.slack.handshake]\nanswer = "upstream"\n' })
  await holds(scene, 'url_verification with answer = "upstream": as the app answers it alone', async () => {
    const request = challenge()
    const [own, through] = [await deliver(scene.tap.port, scene.consumer.path, request), await scene.deliver(request)]
    assert.deepEqual(withoutHop(through), withoutHop(own))
    assert.equal(scene.tap.taken().length, 2)
    return shown(through)
  })
}

async function slow(scene) {
  await holds(scene, "a listener of four seconds: told 503 within Slack's three, the retry 200; it runs once", async () => {
    const delivery = await scene.make('evt_slow', Date.now(), { say: 'summarise this' })
    const began = Date.now()
    const first = await scene.deliver(delivery)
    const took = Date.now() - began
    assert.equal(first.status, 503, shown(first))
    assert.ok(took < 3000, `${took} ms`)
    await eventually('its effect', () => scene.effects('evt_slow') > 0)
    const retry = await eventually('the retry', async () => {
      const answer = await scene.deliver(delivery)
      return isSuccess(answer) && answer
    })
    only(scene.tap.taken())
    assert.equal(scene.effects('evt_slow'), 1)
    return `503 after ${(took / 1000).toFixed(1)} s, then ${outcomes([retry])}`
  })
}

/** No delivery fails, and each event takes effect once. */
async function allPass(scene, prefix, count, send) {
  const failures = []
  const one = async (turn) => {
    try {
      const answer = await scene.deliver(await scene.make(`${prefix}_${turn}`))
      if (!isSuccess(answer)) failures.push(shown(answer))
    } catch (error) {
      failures.push(error.message)
    }
  }
  await send(one)
  assert.deepEqual(failures, [])
  for (let turn = 0; turn < count; turn++) assert.equal(scene.effects(`${prefix}_${turn}`), 1, `${prefix}_${turn}`)
}

async function inARowAndAtOnce(scene) {
  await scene.takeHookonceAway()
  await scene.putHookonce({ pastTap: true })
  const atOnce = (prefix) => allPass(scene, prefix, 50, (one) => Promise.all(Array.from({ length: 50 }, (_, turn) => one(turn))))
  await holds(scene, '200 deliveries in a row, then 50 at once: none fails, each takes effect once', async () => {
    await allPass(scene, 'row', 200, async (one) => {
      for (let turn = 0; turn < 200; turn++) await one(turn)
    })
    await atOnce('once')
  })
  await holds(scene, '50 more once gunicorn has closed the connections that were kept: the same', async () => {
    await sleep(GUNICORN_KEEPS + 500)
    await atOnce('more')
  })
}

try {
  const redis = await startRedis()
  const clock = movableClock()
  await examine(express, redis, clock)
  await examine(probot, redis, clock)
  await examine(bolt, redis, clock, handshakes)
  await examine(boltExpress, redis, clock, slow)
  await examine(flaskSync, redis, clock, inARowAndAtOnce)

  console.log(flaskThreads.name)
  const scene = await Scene.open(flaskThreads, redis)
  await inARowAndAtOnce(scene)
  await scene.close()
} finally {
  await tidyUp()
}
console.log(`${counted.holds} hold, ${counted.fails} do not`)
process.exitCode = counted.fails ? 1 : 0
