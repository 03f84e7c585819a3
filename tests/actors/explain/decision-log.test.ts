import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ChatCommand } from '../../../src/actors/chat/chat-command.ts'
import { DecisionLog } from '../../../src/actors/explain/decision-log.ts'
import { newId } from '../../../src/ids.ts'
import { explainPlacement } from '../../../src/machines/rules/explain.ts'
import { place } from '../../../src/machines/rules/placement.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { nowMs, request, route, table } from '../../machines/rules/routes.ts'

const others = { customerId: 'them', visibility: 'public', privacyClass: 'public', contextLength: 8_000 } as const
/** Models of one route, of two sides, of two that are weighed against each other, and of more than are kept as numbers. */
const routes: readonly Route[] = [
  route('alone', { modelId: 'one' }),
  route('mine', { modelId: 'two', slotsTotal: 1, contextLength: 4_000 }),
  route('theirs', { ...others, modelId: 'two' }),
  ...['a', 'b', 'c', 'd', 'e'].map((name) => route(name, { modelId: 'many', ready: name === 'a' })),
  route('left', { modelId: 'pair' }),
  route('right', { modelId: 'pair' }),
]
const later = [route('alone', { modelId: 'one', rank: 1 }), route('late', { modelId: 'two' }), ...routes.slice(3)]
const tables = [table(...routes), table(...later)] as const
const open = { min_privacy_class: 'public' } as const
const noProfiles: ReadonlySet<string> = new Set()
const askers = [
  request({ freeOnly: false }),
  request({ freeOnly: false, account: open, key: open }),
  request({ freeOnly: false, customerId: 'them' }),
]

const tokensOrNull = fc.constantFrom(null, null, null, 0, 17, 5_000)
const turn = fc.record({
  table: fc.constantFrom(...tables),
  asker: fc.constantFrom(...askers),
  modelId: fc.constantFrom('one', 'two', 'two', 'two', 'pair', 'pair', 'many', 'none'),
  pin: fc.constantFrom(null, null, null, 'node_mine', 'node_theirs'),
  prompt: fc.constantFrom(null, null, null, { units: 10, blocks: [], first: 1 }),
  nowMs: fc.integer({ min: nowMs, max: nowMs + 1e9 }),
  contextLeast: tokensOrNull,
  contextWanted: tokensOrNull,
  inFlight: fc.constantFrom(0, 0, 0, 0, 1),
  ttftEwmaMs: fc.option(fc.double({ min: 0, max: 1e6, noNaN: true }), { nil: null }),
  ejectedUntilMs: fc.constantFrom(0, nowMs + 5e8),
  id: fc.constantFrom('own', 'own', 'own', 'own', 'short'),
})

test('§23: each request is told what was decided for it on what was seen then, the usual and the unusual side by side', () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 60, size: 'max' }), (turns) => {
      const log = new DecisionLog()
      const expected = turns.map(
        ({ table: seen, asker, modelId, pin, inFlight, ttftEwmaMs, ejectedUntilMs, id, ...own }) => {
          for (const { load } of [...routes, ...later]) Object.assign(load, { inFlight, ttftEwmaMs, ejectedUntilMs })
          const wanted = { ...asker, ...own, modelId, pin, exclude: noProfiles }
          const placement = place(seen, wanted)
          const requestId = id === 'short' ? `req_${own.nowMs}_${Math.random()}` : newId('req')
          const command = { requestId, access: { ...wanted.access, keyId: null } } as unknown as ChatCommand
          log.record(command, { table: seen, request: wanted, placement }, false)
          const tried = {
            atMs: own.nowMs,
            model: modelId,
            result: placement.kind,
            code: placement.kind === 'refused' ? placement.code : null,
            routes: explainPlacement(seen, wanted, placement),
          }
          return { requestId, model: modelId, customerId: wanted.access.customerId, tries: [tried] }
        },
      )
      // What moves has moved on.
      for (const { load } of [...routes, ...later])
        Object.assign(load, { inFlight: 9, ttftEwmaMs: 1, ejectedUntilMs: 1 })
      for (const explanation of expected) expect(log.explain(explanation.requestId)).toEqual(explanation)
      // Once more, now that each has been asked for.
      for (const explanation of expected) expect(log.explain(explanation.requestId)).toEqual(explanation)
    }),
    { numRuns: 200 },
  )
})

test('§23: further looks of a usual request stand behind its first, and the oldest of 10,000 usual ones goes first', () => {
  const log = new DecisionLog()
  const [seen] = tables
  const wanted = { ...(askers[0] as (typeof askers)[number]), modelId: 'one', exclude: noProfiles }
  const ids = [newId('req'), newId('req'), newId('req')]
  const record = (requestId: string, again: boolean, atMs: number) => {
    const command = { requestId, access: { ...wanted.access, keyId: null } } as unknown as ChatCommand
    const looked = { ...wanted, nowMs: atMs }
    log.record(command, { table: seen, request: looked, placement: place(seen, looked) }, again)
  }
  for (const [at, id] of ids.entries()) record(id, false, nowMs + at)
  record(ids[1] ?? '', true, nowMs + 10)
  record(ids[1] ?? '', true, nowMs + 11)
  const shown = () => ids.map((id) => log.explain(id)?.tries.map(({ atMs }) => atMs - nowMs))
  expect(shown()).toEqual([[0], [1, 10, 11], [2]])
  for (let later = 0; later < 9_998; later++) record(newId('req'), false, nowMs + 20)
  expect(shown()).toEqual([undefined, [1, 10, 11], [2]])
})

test('§23: what each route would have cost is told of the request itself, not of its neighbours', () => {
  const log = new DecisionLog()
  const pair = routes.filter(({ modelId }) => modelId === 'pair')
  const seen = table(...pair)
  const told = [10, 20_000, 400].map((units) => {
    const prompt = { units, blocks: [], first: 1 }
    const wanted = { ...(askers[0] as (typeof askers)[number]), modelId: 'pair', exclude: noProfiles, prompt }
    const requestId = newId('req')
    const command = { requestId, access: { ...wanted.access, keyId: null } } as unknown as ChatCommand
    const placement = place(seen, wanted)
    const costs = explainPlacement(seen, wanted, placement).map(({ cost }) => cost?.ownMs)
    log.record(command, { table: seen, request: wanted, placement }, false)
    return { requestId, costs }
  })
  expect(new Set(told.flatMap(({ costs }) => costs)).size).toBeGreaterThan(2)
  for (const { requestId, costs } of told)
    expect(log.explain(requestId)?.tries[0]?.routes.map(({ cost }) => cost?.ownMs)).toEqual(costs)
})
