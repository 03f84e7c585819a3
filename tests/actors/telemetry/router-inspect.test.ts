import { expect, test } from 'bun:test'
import { createActor, fromPromise, setup } from 'xstate'
import { createInspector, observeErrors } from '../../../src/actors/telemetry/inspect.ts'
import { type Transition, transitionsKeptMax } from '../../../src/actors/telemetry/transition-ring.ts'
import { createLog } from '../../../src/log.ts'
import { nodeMachine } from '../../../src/machines/charts/node.ts'

function logged() {
  let text = ''
  const log = createLog('info', (more) => {
    text += more
  })
  return {
    log,
    lines: () => {
      log.flush()
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
    },
  }
}

const thresholds = { staleAfterMs: 15_000, offlineAfterMs: 45_000, holdDownMs: 300_000, drainTimeoutMs: 300_000 }

test('transitions: machine, id, from, to, event and time; kept, offered and logged', () => {
  const { log, lines } = logged()
  const inspector = createInspector(log, () => 1_800_000_000_000)
  const seen: Transition[] = []
  const end = inspector.subscribe((transition) => seen.push(transition))
  const actor = createActor(nodeMachine, { id: 'node_a', input: thresholds, inspect: inspector.inspect }).start()
  actor.send({ type: 'poll.answered', modelsReady: 1, at: 1 })
  actor.send({ type: 'poll.answered', modelsReady: 1, at: 2 })
  actor.send({ type: 'connection.refused', at: 3 })
  end()
  actor.send({ type: 'revoke.asked', at: 4 })
  const at = 1_800_000_000_000
  const expected = [
    { machine: 'node', id: 'node_a', from: null, to: 'enrolled', event: 'xstate.init', at },
    { machine: 'node', id: 'node_a', from: 'enrolled', to: 'ready', event: 'poll.answered', at },
    { machine: 'node', id: 'node_a', from: 'ready', to: 'stale.silent', event: 'connection.refused', at },
  ]
  expect(seen).toEqual(expected)
  expect(inspector.recent('node').slice(0, 3)).toEqual(expected)
  expect(inspector.recent('node').at(-1)?.to).toBe('revoked')
  expect(inspector.recent('router')).toEqual([])
  expect(lines().map((line) => [line.event, line.id, line.from, line.to])).toEqual([
    ['transition', 'node_a', null, 'enrolled'],
    ['transition', 'node_a', 'enrolled', 'ready'],
    ['transition', 'node_a', 'ready', 'stale.silent'],
    ['transition', 'node_a', 'stale.silent', 'revoked'],
  ])
})

test('the ring is bounded', () => {
  const inspector = createInspector(createLog('silent', () => {}))
  const actor = createActor(nodeMachine, { input: thresholds, inspect: inspector.inspect }).start()
  for (let i = 0; i < transitionsKeptMax; i++) actor.send({ type: 'poll.answered', modelsReady: i % 2, at: i })
  expect(inspector.recent('node')).toHaveLength(transitionsKeptMax)
  actor.stop()
})

test('§23: instances are counted in the state they are in, until they end or are stopped', () => {
  const inspector = createInspector(createLog('silent', () => {}))
  const started = ['a', 'b', 'c'].map((id) =>
    createActor(nodeMachine, { id, input: thresholds, inspect: inspector.inspect }).start(),
  )
  const live = () =>
    Object.fromEntries([...(inspector.counts().get('node')?.live ?? [])].filter(([, count]) => count > 0))
  expect(live()).toEqual({ enrolled: 3 })
  const [a, b, c] = started
  a?.send({ type: 'poll.answered', modelsReady: 1, at: 1 })
  b?.send({ type: 'poll.answered', modelsReady: 0, at: 1 })
  expect(live()).toEqual({ enrolled: 1, ready: 1, live: 1 })
  a?.send({ type: 'revoke.asked', at: 2 })
  c?.stop()
  expect(live()).toEqual({ live: 1 })
  b?.stop()
  expect(live()).toEqual({})
  expect(Object.fromEntries(inspector.counts().get('node')?.entered ?? [])).toEqual({
    enrolled: 3,
    live: 1,
    ready: 1,
    revoked: 1,
  })
})

test('a failed actor is logged by the class of its failure, and the process lives', async () => {
  const { log, lines } = logged()
  const broken = setup({
    actors: { work: fromPromise(async () => Promise.reject(new TypeError('a secret'))) },
  }).createMachine({
    initial: 'working',
    states: { working: { invoke: { id: 'work', src: 'work' } } },
  })
  const actor = createActor(broken, { id: 'broken' })
  const failed = new Promise<void>((resolve) => actor.subscribe({ error: () => resolve() }))
  observeErrors(actor, log)
  actor.start()
  await failed
  const [line] = lines()
  expect(line).toMatchObject({ level: 'error', event: 'actor_failed', id: 'broken', failure: 'TypeError' })
  expect(JSON.stringify(line)).not.toContain('secret')
})
