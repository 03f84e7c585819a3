import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { noMatches } from '../../../src/machines/placement/cache-view.ts'
import { ConcurrencyLimit } from '../../../src/machines/placement/concurrency.ts'
import { fleetOf } from '../../../src/machines/placement/cost.ts'
import { LoadTimes } from '../../../src/machines/placement/loads.ts'
import {
  firstTokenSeen,
  learnReading,
  type Work,
  workEnded,
  workPlaced,
} from '../../../src/machines/placement/reading.ts'
import { explainPlacement } from '../../../src/machines/rules/explain.ts'
import { type Placement, type PlacementRequest, place, takePlace } from '../../../src/machines/rules/placement.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { nowMs, type RouteChange, request, route, seeded, table } from './routes.ts'

const chosen = (placement: Placement) => (placement.kind === 'placed' ? placement.route.nodeId : null)
const code = (placement: Placement) => (placement.kind === 'refused' ? placement.code : placement.kind)
const decide = (routes: readonly Route[], wanted: PlacementRequest) => place(table(...routes), wanted)

/** The nodes that were chosen for 300 prompts with nothing changing between them. */
function spread(routes: readonly Route[], wanted: PlacementRequest): readonly string[] {
  const nodes = new Set<string>()
  for (let first = 1; first <= 300; first++) {
    const prompt = { units: 100, blocks: [], first: first * 7_919_777 }
    nodes.add(chosen(decide(routes, { ...wanted, prompt })) ?? 'none')
  }
  return [...nodes].sort()
}

const openPolicy = { min_privacy_class: 'public' } as const
const others = { customerId: 'them', visibility: 'public', privacyClass: 'public' } as const

describe('§8 eligibility: who may use what', () => {
  const mine = route('mine')
  const theirsPrivate = route('theirs', { customerId: 'them' })
  const theirsPublic = route('theirs', others)
  const theirsTrusted = route('theirs', { ...others, privacyClass: 'trusted' })
  const cases: readonly [string, readonly Route[], PlacementRequest, string][] = [
    ['an own machine', [mine], request(), 'node_mine'],
    ['an unknown model', [mine], request({ modelId: 'other' }), 'model_not_found'],
    [
      "another customer's private machine does not exist",
      [theirsPrivate],
      request({ account: openPolicy, key: openPolicy }),
      'model_not_found',
    ],
    ["another's public machine, neither policy says so", [theirsPublic], request(), 'privacy_class_not_allowed'],
    ['… only the account says so', [theirsPublic], request({ account: openPolicy }), 'privacy_class_not_allowed'],
    ['… only the key says so', [theirsPublic], request({ key: openPolicy }), 'privacy_class_not_allowed'],
    ['… both say so', [theirsPublic], request({ account: openPolicy, key: openPolicy }), 'node_theirs'],
    [
      'trusted asked for, public offered',
      [theirsPublic],
      request({ account: { min_privacy_class: 'trusted' }, key: openPolicy }),
      'privacy_class_not_allowed',
    ],
    [
      'trusted asked for, trusted offered',
      [theirsTrusted],
      request({ account: { min_privacy_class: 'trusted' }, key: openPolicy }),
      'node_theirs',
    ],
    [
      "another's machine never counts as private, whatever it is called",
      [route('theirs', { ...others, privacyClass: 'private' })],
      request(),
      'privacy_class_not_allowed',
    ],
    ['own machines first', [theirsPublic, mine], request({ account: openPolicy, key: openPolicy }), 'node_mine'],
    [
      'an own machine that is down, nothing else allowed',
      [theirsPublic, route('mine', { ready: false })],
      request(),
      'no_route_available',
    ],
    [
      'an own machine that is down, others allowed',
      [theirsPublic, route('mine', { ready: false })],
      request({ account: openPolicy, key: openPolicy }),
      'node_theirs',
    ],
    ['outside the node scope', [mine], request({ nodeScope: ['node_else'] }), 'model_not_found'],
    ['inside the node scope', [mine, route('b')], request({ nodeScope: ['node_b'] }), 'node_b'],
    [
      'the scope holds for machines of others too',
      [theirsPublic],
      request({ account: openPolicy, key: openPolicy, nodeScope: ['node_mine'] }),
      'model_not_found',
    ],
    ['a denied model', [mine], request({ key: { denied_models: ['m'] } }), 'model_not_allowed'],
    ['not among the allowed models', [mine], request({ account: { allowed_models: ['x*'] } }), 'model_not_allowed'],
    [
      'a tier of the policy',
      [mine, route('b', { nodeClass: 'cpu' })],
      request({ key: { route_tiers: ['cpu'] } }),
      'node_b',
    ],
    ['no route in the tiers', [mine], request({ key: { route_tiers: ['cpu'] } }), 'model_not_allowed'],
    [
      'a denied model on invisible machines only is not found',
      [theirsPrivate],
      request({ key: { denied_models: ['m'] } }),
      'model_not_found',
    ],
    [
      'mixtures stay on own machines',
      [theirsPublic],
      request({ account: openPolicy, key: openPolicy, ownOnly: true }),
      'no_route_available',
    ],
    [
      'a priced model of others is not free',
      [route('theirs', { ...others, priced: true })],
      request({ account: openPolicy, key: openPolicy }),
      'no_route_available',
    ],
    ['a priced model on an own machine is', [route('mine', { priced: true })], request(), 'node_mine'],
    ['a pin', [mine, route('b')], request({ pin: 'node_b' }), 'node_b'],
    ['a pin to an unknown node', [mine], request({ pin: 'node_x' }), 'node_pin_forbidden'],
    [
      "a pin to another's public machine",
      [mine, theirsPublic],
      request({ account: openPolicy, key: openPolicy, pin: 'node_theirs' }),
      'node_pin_forbidden',
    ],
    [
      'a pin outside the scope',
      [mine, route('b')],
      request({ nodeScope: ['node_mine'], pin: 'node_b' }),
      'node_pin_forbidden',
    ],
    [
      'a pin to an own machine without the model',
      [mine, route('b', { modelId: 'n' })],
      request({ pin: 'node_b' }),
      'no_route_available',
    ],
    [
      'a pin to an own machine that is down',
      [mine, route('b', { ready: false })],
      request({ pin: 'node_b' }),
      'no_route_available',
    ],
    ['a profile', [mine, route('b')], request({ profileId: 'mp_b' }), 'node_b'],
    ['an unknown profile', [mine], request({ profileId: 'mp_x' }), 'model_not_found'],
    [
      "another's profile",
      [mine, theirsPublic],
      request({ account: openPolicy, key: openPolicy, profileId: 'mp_theirs' }),
      'model_not_found',
    ],
    [
      'context too short everywhere',
      [route('a', { contextLength: 100 })],
      request({ contextLeast: 101 }),
      'context_length_exceeded',
    ],
    [
      'context too short on one',
      [route('a', { contextLength: 100 }), route('b', { contextLength: 200 })],
      request({ contextLeast: 101 }),
      'node_b',
    ],
    [
      'context long enough on one that is down',
      [route('a', { contextLength: 100 }), route('b', { contextLength: 200, ready: false })],
      request({ contextLeast: 101 }),
      'no_route_available',
    ],
    ['unknown context counts as enough', [mine], request({ contextLeast: 1e9 }), 'node_mine'],
    [
      'contexts below the estimate come last',
      [route('a', { contextLength: 100 }), route('b', { contextLength: 200 }), route('c', { contextLength: 150 })],
      request({ contextWanted: 151 }),
      'node_b',
    ],
    [
      'also after machines of others',
      [route('a', { contextLength: 100 }), route('t', { ...others, contextLength: 200 })],
      request({ account: openPolicy, key: openPolicy, contextWanted: 101 }),
      'node_t',
    ],
    [
      'and are tried where there is nothing else',
      [route('a', { contextLength: 100 }), route('b', { contextLength: 200, ready: false })],
      request({ contextWanted: 101 }),
      'node_a',
    ],
    [
      'unknown context counts as large enough',
      [route('a', { contextLength: 100 }), route('b')],
      request({ contextWanted: 101 }),
      'node_b',
    ],
    [
      'after a node that said its context is too small: a larger one',
      [route('a', { contextLength: 100 }), route('b', { contextLength: 100 }), route('c', { contextLength: 101 })],
      request({ contextAbove: 100 }),
      'node_c',
    ],
    [
      'after a node that said its context is too small: none that is not known to be larger',
      [route('a', { contextLength: 100 }), route('b')],
      request({ contextAbove: 100 }),
      'context_length_exceeded',
    ],
    ['full', [route('a', { slotsTotal: 1, inFlight: 1 })], request(), 'saturated'],
    ['no slots known: never full', [route('a', { inFlight: 1_000 })], request(), 'node_a'],
    [
      'own machines full, others allowed',
      [route('a', { slotsTotal: 1, inFlight: 1 }), theirsPublic],
      request({ account: openPolicy, key: openPolicy }),
      'node_theirs',
    ],
    ['a hosted provider', [route('a', { external: true })], request(), 'privacy_class_not_allowed'],
    [
      'a hosted provider, only the account says so',
      [route('a', { external: true })],
      request({ account: { allow_external: true } }),
      'privacy_class_not_allowed',
    ],
    [
      'a hosted provider, account and key say so',
      [route('a', { external: true })],
      request({ account: { allow_external: true }, key: { allow_external: true } }),
      'node_a',
    ],
    [
      'the lowest rank, however cold and busy',
      [route('a', { rank: 1 }), route('b', { inFlight: 9, reading: { cold: true } })],
      request(),
      'node_b',
    ],
    [
      'a higher rank where the lower is down',
      [route('a', { rank: 1 }), route('b', { ready: false })],
      request(),
      'node_a',
    ],
    [
      'a wait for the lower rank',
      [route('a', { rank: 1 }), route('b', { slotsTotal: 1, inFlight: 1 })],
      request(),
      'saturated',
    ],
    [
      'no wait for a higher rank',
      [route('a', { rank: 1, slotsTotal: 1, inFlight: 1 }), route('b')],
      request(),
      'node_b',
    ],
    [
      'a higher rank after that wait',
      [route('a', { rank: 1 }), route('b', { slotsTotal: 1, inFlight: 1 })],
      request({ queueWaitMs: null }),
      'node_a',
    ],
    [
      'a higher rank where the wait would be too long',
      [route('a', { rank: 1 }), route('b', { slotsTotal: 1, inFlight: 1, durationEwmaMs: 10_001 })],
      request(),
      'node_a',
    ],
    ['all tried', [mine], request({ exclude: ['mp_mine'] }), 'no_route_available'],
  ]
  for (const [name, routes, wanted, answer] of cases) {
    test(name, () => {
      const placement = decide(routes, wanted)
      expect<string>(chosen(placement) ?? code(placement)).toBe(answer)
    })
  }

  test('an alias is judged by all names of its model', () => {
    const names = { modelId: 'big', modelNames: ['big', 'big-alias'], upstreamModelId: 'big-alias' }
    const routes = [route('a', names)]
    expect(chosen(decide(routes, request({ modelId: 'big-alias' })))).toBe('node_a')
    expect(code(decide(routes, request({ modelId: 'big', key: { denied_models: ['big-alias'] } })))).toBe(
      'model_not_allowed',
    )
    expect(chosen(decide(routes, request({ modelId: 'big-alias', key: { allowed_models: ['big'] } })))).toBe('node_a')
  })

  test('§5: a failover never crosses between own machines and those of others', () => {
    const open = { account: openPolicy, key: openPolicy }
    const [own, theirs] = [{ side: 'own' }, { side: 'others' }] as const
    const pool = [route('a'), route('b'), route('t1', others), route('t2', others)]
    expect(chosen(decide(pool, request({ ...open, ...own, exclude: ['mp_a'] })))).toBe('node_b')
    expect(code(decide(pool, request({ ...open, ...own, exclude: ['mp_a', 'mp_b'] })))).toBe('no_route_available')
    expect(chosen(decide(pool, request({ ...open, ...theirs, exclude: ['mp_t1'] })))).toBe('node_t2')
    expect(code(decide(pool, request({ ...open, ...theirs, exclude: ['mp_t1', 'mp_t2'] })))).toBe('no_route_available')
  })

  test('saturated names the full routes, own first', () => {
    const full = { slotsTotal: 1, inFlight: 1 }
    const placement = decide(
      [route('t', { ...others, ...full }), route('a', full)],
      request({ account: openPolicy, key: openPolicy }),
    )
    expect(placement.kind === 'saturated' && placement.routes.map((entry) => entry.nodeId)).toEqual([
      'node_a',
      'node_t',
    ])
  })
})

describe('§29 a full route whose cache has the prompt', () => {
  const prompt = { units: 80_000, blocks: Array.from({ length: 78 }, (_, at) => at + 1), first: 1 }
  const full = { slotsTotal: 4, inFlight: 4, durationEwmaMs: 4_000 } as const
  const held = { mp_full: 79_872 } as Record<string, number>
  const matches = { unitsOf: (profileId: string) => held[profileId] ?? 0, holder: null }
  const cached = (change = {}) => request({ prompt, matches, ...change })
  const answer = (routes: readonly Route[], wanted: PlacementRequest) => {
    const placement = decide(routes, wanted)
    return (
      chosen(placement) ??
      (placement.kind === 'saturated' ? (placement.awaits?.route.nodeId ?? 'any') : code(placement))
    )
  }
  const cases: readonly [string, readonly Route[], PlacementRequest, string][] = [
    ['is waited for', [route('full', full), route('open')], cached(), 'node_full'],
    ['is the one waited for where all are full', [route('full', full), route('b', full)], cached(), 'node_full'],
    [
      'but not where one without it is sooner even so',
      [
        route('full', { ...full, durationEwmaMs: 39_000 }),
        route('b', { ...full, slotsTotal: 4, reading: { unitsPerMs: 80 } }),
      ],
      cached(),
      'any',
    ],
    [
      'but not for what is as soon elsewhere',
      [route('full', full), route('open')],
      cached({ prompt: { ...prompt, units: 2_000 }, matches: { ...matches, unitsOf: () => 1_024 } }),
      'node_open',
    ],
    ['but not longer than its clock', [route('full', full), route('open')], cached({ cacheWaitMs: 999 }), 'node_open'],
    ['but not after a wait in vain', [route('full', full), route('open')], cached({ cacheWaitMs: null }), 'node_open'],
    [
      'nor where many wait for it',
      [route('full', { ...full, reading: { awaited: 30 } }), route('open')],
      cached(),
      'node_open',
    ],
    [
      'nor where those who wait have much to read',
      [route('full', { ...full, reading: { awaited: 1, awaitedMs: 60_000 } }), route('open')],
      cached(),
      'node_open',
    ],
    [
      'nor while its model is away from memory',
      [route('full', { ...full, reading: { cold: true } }), route('open')],
      cached(),
      'node_open',
    ],
    [
      'nor without the prompt, where the others have the model in memory, too',
      [route('full', full), route('open')],
      cached({ matches: noMatches }),
      'node_open',
    ],
    ['nor where its rank is higher', [route('full', { ...full, rank: 1 }), route('open')], cached(), 'node_open'],
    [
      "nor another's before an own one",
      [route('full', { ...full, ...others }), route('open')],
      cached({ account: openPolicy, key: openPolicy }),
      'node_open',
    ],
    [
      "nor another's while own ones are full",
      [route('full', { ...full, ...others }), route('b', full)],
      cached({ account: openPolicy, key: openPolicy }),
      'any',
    ],
  ]
  for (const [name, routes, wanted, expected] of cases) test(name, () => expect(answer(routes, wanted)).toBe(expected))

  test('§29: one with the model in memory is waited for where the others would have to load it', () => {
    const away = { reading: { cold: true, evictedWaitMs: 3_000 } }
    const without = cached({ matches: noMatches })
    expect(answer([route('full', full), route('open', away)], without)).toBe('node_full')
    expect(answer([route('full', full), route('open', away)], cached({ prompt: null }))).toBe('node_full')
    // A slot that takes longer to come free than the load does.
    const slow = { ...full, durationEwmaMs: 39_000, slotsTotal: 1 }
    const fast = { reading: { cold: true, loadEwmaMs: 2_000 } }
    expect(answer([route('full', slow), route('open', fast)], without)).toBe('node_open')
    expect(answer([route('full', { ...full, ...away }), route('open', away)], without)).toBe('node_open')
  })

  test('nobody knows where a prompt is that was not hashed', () =>
    expect(answer([route('full', full), route('open')], cached({ prompt: null }))).toBe('node_open'))

  test('explain shows what both would have cost', () => {
    const pool = table(route('full', full), route('open'))
    const wanted = cached()
    const [waited, passed] = explainPlacement(pool, wanted, place(pool, wanted))
    expect([waited?.reason, passed?.reason]).toEqual(['full', 'less_preferred'])
    expect(waited?.cost?.slotWaitMs).toBe(1_000)
    expect(passed?.cost?.ownMs).toBe(20_000)
  })
})

/** A route that answered so many calls at once, and those beyond late. */
function learnt(limit: number): ConcurrencyLimit {
  const concurrency = new ConcurrencyLimit()
  for (let at = 1; at <= 2 * limit; at++) concurrency.learn(at, at > limit)
  return concurrency
}

describe('§29 choice: the least expected time to the first token', () => {
  const prompt = { units: 8_000, blocks: [1, 2, 3, 4, 5, 6, 7], first: 1 }
  const pair = (a: RouteChange, b: RouteChange, change = {}) =>
    chosen(decide([route('a', a), route('b', b)], request({ prompt, ...change })))
  const holding = (nodes: Record<string, number>) => ({
    matches: { unitsOf: (profileId: string) => nodes[profileId] ?? 0, holder: null },
  })

  test('what is cached need not be read', () => {
    expect(pair({}, {}, holding({ mp_b: 7_168 }))).toBe('node_b')
    expect(pair({}, {}, holding({ mp_a: 7_168 }))).toBe('node_a')
    const placement = decide([route('a'), route('b')], request({ prompt, ...holding({ mp_b: 7_168 }) }))
    expect(placement).toMatchObject({ chosenBy: 'affinity' })
  })

  test('a backlog that takes longer than reading anew outweighs a cache', () => {
    const behind = (ms: number) => pair({ reading: { readUntilMs: nowMs + ms } }, {}, holding({ mp_a: 7_168 }))
    expect(behind(2_000)).toBe('node_a')
    expect(behind(3_000)).toBe('node_b')
  })

  test('the faster reader', () => {
    expect(pair({ reading: { unitsPerMs: 4 } }, { reading: { unitsPerMs: 8 } })).toBe('node_b')
    expect(pair({ reading: { unitsPerMs: 8 } }, { reading: { unitsPerMs: 4 } })).toBe('node_a')
    expect(pair({ reading: { lagMs: 500 } }, {})).toBe('node_b')
  })

  describe('what is thought of a route is doubted while calls pass it by', () => {
    /** Prompts one after the other, on machines that read at these speeds; where each went, and how long it took. */
    function serve(speeds: Readonly<Record<string, number>>, routes: readonly Route[], calls: number, everyMs: number) {
      const random = seeded(1)
      return Array.from({ length: calls }, (_, at) => {
        const atMs = nowMs + at * everyMs
        const asked = { units: 2_000, blocks: [], first: at * 7_919_777 }
        const wanted = request({ prompt: asked, nowMs: atMs })
        const placed = decide(routes, wanted)
        if (placed.kind !== 'placed') throw new Error('nothing is open')
        const work = takePlace(placed, wanted, random) as Work
        const { reading } = placed.route.load
        const tookMs = asked.units / (speeds[placed.route.nodeId] ?? 1)
        workPlaced(reading, work, true)
        firstTokenSeen(reading, work, atMs + tookMs)
        learnReading(reading, work, null, 5_000)
        workEnded(reading, work, true, atMs + tookMs)
        return { nodeId: placed.route.nodeId, tookMs }
      })
    }
    const pairOf = (a: number, b: number) => [
      route('a', { reading: { unitsPerMs: a } }),
      route('b', { reading: { unitsPerMs: b } }),
    ]

    test('a machine that had a slow hour is used again, though others suffice', () => {
      const served = serve({ node_a: 4, node_b: 2 }, pairOf(0.5, 2), 10_000, 1_000)
      expect(served.slice(0, 100).filter(({ nodeId }) => nodeId === 'node_a')).toEqual([])
      expect(served.slice(-100).filter(({ nodeId }) => nodeId === 'node_b')).toEqual([])
    })

    test('a machine that is slow is asked so seldom that a call waits 1 ms longer for it in the mean', () => {
      const served = serve({ node_a: 0.5, node_b: 2 }, pairOf(0.5, 2), 20_000, 60_000)
      expect(new Set(served.map(({ nodeId }) => nodeId)).size).toBe(2)
      const fastestMs = 1_000
      expect(served.reduce((sum, { tookMs }) => sum + tookMs - fastestMs, 0) / served.length).toBeLessThan(1.1)
    })

    test('of many calls so few that it is 10 ms in a second', () => {
      const served = serve({ node_a: 0.5, node_b: 2 }, pairOf(0.5, 2), 200_000, 1)
      const slow = served.filter(({ nodeId }) => nodeId === 'node_a')
      expect(slow.length).toBe(0)
    })

    test('of many slow machines all together, and not all at once', () => {
      const slow = Array.from({ length: 50 }, (_, at) => route(`slow${at}`, { reading: { unitsPerMs: 1.5 } }))
      const routes = [...slow, route('b', { reading: { unitsPerMs: 2 } })]
      const speeds = Object.fromEntries(routes.map(({ nodeId }) => [nodeId, nodeId === 'node_b' ? 2 : 1.5]))
      const served = serve(speeds, routes, 40_000, 60_000)
      const asked = served.flatMap(({ nodeId }, at) => (nodeId === 'node_b' ? [] : [at]))
      const dearerMs = 2_000 / 1.5 - 1_000
      expect(asked.length).toBeWithin(50, 40_000 / dearerMs)
      for (const [at, call] of asked.slice(10).entries()) expect(call - (asked[at] ?? 0)).toBeGreaterThan(20)
    })

    test('a late first token as well, which says nothing of its speed', () => {
      const routes = [route('a', { reading: { lagMs: 60 } }), route('b', { reading: { lagMs: 5 } })]
      const nodes: string[] = []
      for (let at = 0; !nodes.includes('node_a'); at++) {
        const wanted = request({ prompt: { units: 100, blocks: [], first: at * 7_919_777 }, nowMs: nowMs + at * 1_000 })
        const placed = decide(routes, wanted)
        if (placed.kind !== 'placed') throw new Error('nothing is open')
        takePlace(placed, wanted, () => 0)
        nodes.push(placed.route.nodeId)
      }
      expect(nodes.length).toBeWithin(45, 80)
    })

    test('of the machines that a call passes one is doubted more, whichever chance names, and never the one that serves', () => {
      const wanted = request({ prompt: { units: 100, blocks: [], first: 7_919_777 } })
      const doubtsAfter = (random: number) => {
        const pool = ['a', 'b', 'c'].map((name) =>
          route(name, { reading: { unitsPerMs: name === 'a' ? 9 : 1, explorationAtMs: nowMs - 60_000 } }),
        )
        const placed = decide(pool, wanted)
        if (placed.kind !== 'placed') throw new Error('nothing is open')
        expect(placed.route.nodeId).toBe('node_a')
        takePlace(placed, wanted, () => random)
        return pool.map(({ load }) => load.reading.explorationMs > 0)
      }
      expect(doubtsAfter(0.1)).toEqual([false, false, false])
      expect(doubtsAfter(0.5)).toEqual([false, true, false])
      expect(doubtsAfter(0.99)).toEqual([false, false, true])
    })

    test('it may be as fast as the fastest, and no faster: a backlog beside it still counts', () => {
      const doubted = { unitsPerMs: 1, explorationMs: 60_000 }
      const fastest = route('b', { reading: { unitsPerMs: 2 } })
      expect(spread([route('a', { reading: doubted }), fastest], request())).toEqual(['node_a', 'node_b'])
      const behind = route('a', { reading: { ...doubted, readUntilMs: nowMs + 100 } })
      expect(spread([behind, fastest], request())).toEqual(['node_b'])
    })

    test('a session stays where it was', () => {
      const stays = { unitsOf: () => 0, holder: 'mp_b' }
      expect(pair({ reading: { lagMs: 300, explorationMs: 300 } }, {}, { matches: stays })).toBe('node_b')
    })
  })

  test('§29: beyond its slots a machine makes calls wait; of an unknown number no wait is charged before one was seen', () => {
    const slots = { slotsTotal: 4 }
    expect(pair({ ...slots, inFlight: 4 }, { ...slots, inFlight: 3 })).toBe('node_b')
    const [fast, slow] = [{ reading: { unitsPerMs: 40 } }, { reading: { unitsPerMs: 20 } }]
    expect(pair({ ...slots, inFlight: 4, ...fast }, { ...slots, inFlight: 3, ...slow })).toBe('node_b')
    expect(pair({ inFlight: 60, ...fast }, { inFlight: 3, ...slow })).toBe('node_a')
    expect(pair({ inFlight: 60, reading: { ...fast.reading, concurrency: learnt(12) } }, slow)).toBe('node_b')
    expect(pair({ inFlight: 11, reading: { ...fast.reading, concurrency: learnt(12) } }, slow)).toBe('node_a')
    // However short calls were: these have been running for a minute.
    const stuck = {
      ...slots,
      inFlight: 8,
      durationEwmaMs: 5,
      reading: { openCalls: 8, openSinceSumMs: 8 * (nowMs - 60_000) },
    }
    expect(pair(stuck, {}, holding({ mp_a: 7_168 }))).toBe('node_b')
    expect(pair({ inFlight: 9, slotsTotal: 16 }, { ...slots, inFlight: 4 })).toBe('node_a')
  })

  test('§29: the fewer routes have a free slot, the more a copy of a prefix elsewhere counts', () => {
    const [busy, free] = [{ slotsTotal: 4, inFlight: 4 }, { slotsTotal: 4 }]
    const shares = [
      [free, free],
      [busy, free],
      [busy, busy],
    ].map((changes) => fleetOf(changes.map((change, at) => route(String(at), change))).copyShare)
    expect(shares).toEqual([0.5, 0.75, 1])
    expect(fleetOf([]).copyShare).toBe(0.5)
    const pool = (inFlight: number) => [
      route('a', { reading: { readUntilMs: nowMs + 2_900 } }),
      ...['b', 'c', 'd'].map((name) => route(name, name === 'b' ? {} : { slotsTotal: 4, inFlight })),
    ]
    const wanted = request({ prompt, ...holding({ mp_a: 7_168 }) })
    expect(chosen(decide(pool(0), wanted))).not.toBe('node_a')
    expect(chosen(decide(pool(4), wanted))).toBe('node_a')
  })

  test('§29: slots that a server says and that first tokens disprove count as learnt', () => {
    const says64 = { slotsTotal: 64, inFlight: 20, reading: { concurrency: learnt(8) } }
    expect(pair(says64, {}, holding({ mp_a: 7_168 }))).toBe('node_b')
    expect(pair({ ...says64, inFlight: 7 }, {}, holding({ mp_a: 7_168 }))).toBe('node_a')
  })

  test('§29: a queue is seen where prompts that should have been read have no first token yet', () => {
    const running = { openCalls: 6, openSinceSumMs: 6 * nowMs, unseenCalls: 2, unseenMs: 100 }
    const late = (ms: number) =>
      pair({ reading: { ...running, readUntilMs: nowMs - ms } }, {}, holding({ mp_a: 7_168 }))
    expect(late(5_000)).toBe('node_b')
    expect(late(50)).toBe('node_a')
  })

  test('what others sent counts: the runtime reports it', () => {
    expect(pair({ slotsTotal: 4, reading: { busyByOthers: 8 } }, {})).toBe('node_b')
    expect(pair({ reading: { queuedByOthers: 3 } }, {})).toBe('node_b')
  })

  test('a model in memory before one that must be loaded, and that before one that pushes out another', () => {
    const busy = (inFlight: number) => ({ inFlight, reading: { concurrency: learnt(4) } })
    expect(pair({ reading: { cold: true } }, busy(4))).toBe('node_b')
    expect(pair({ reading: { cold: true } }, busy(30))).toBe('node_a')
    expect(pair({ reading: { cold: true, evictedWaitMs: 5_000 } }, { reading: { cold: true } })).toBe('node_b')
    const loading = { cold: true, loadStartedAtMs: nowMs - 5_000 }
    expect(pair({ reading: { cold: true } }, { inFlight: 1, reading: loading })).toBe('node_b')
    const measured = (loadEwmaMs: number) => ({ reading: { cold: true, loadEwmaMs } })
    expect(pair(measured(2_000), measured(8_000))).toBe('node_a')
  })

  test('§29: a load that was never measured takes as long as others, so that the free place beside is tried', () => {
    const thrown = { cold: true, loadEwmaMs: 3_000, evictedWaitMs: 1_500 }
    expect(pair({ reading: thrown }, { reading: { cold: true } })).toBe('node_b')
    const slow = new LoadTimes(null)
    slow.measured(60_000)
    expect(pair({ reading: thrown }, { reading: { cold: true, loadTimes: slow } })).toBe('node_a')
  })

  test('§29: a load that was never seen is doubted like a route that was never asked', () => {
    const slow = { cold: true, loadEwmaMs: 5_000 }
    const guess = new LoadTimes(null)
    guess.measured(6_000)
    const unseen = (explorationMs: number) => ({ reading: { cold: true, loadTimes: guess, explorationMs } })
    expect(pair({ reading: slow }, unseen(900))).toBe('node_a')
    expect(pair({ reading: slow }, unseen(1_100))).toBe('node_b')
    expect(pair({ reading: slow }, { reading: { ...slow, loadEwmaMs: 6_000, explorationMs: 60_000 } })).toBe('node_a')
  })

  test('§37: late first tokens load no second copy beside a free slot, and a queue for slots does', () => {
    const fast = { cold: true, loadEwmaMs: 500 }
    // Three calls should have their first tokens for ten seconds.
    const late = { unseenCalls: 3, openCalls: 3, unseenMs: 3, readUntilMs: nowMs - 10_000 }
    expect(pair({ reading: fast }, { inFlight: 3, slotsTotal: 8, reading: late })).toBe('node_b')
    expect(pair({ reading: fast }, { inFlight: 3, slotsTotal: 3, reading: late })).toBe('node_a')
    const loading = {
      cold: true,
      loadEwmaMs: 500,
      loadStartedAtMs: nowMs - 10,
      unseenCalls: 1,
      readUntilMs: nowMs + 600,
    }
    expect(pair({ reading: fast }, { inFlight: 1, reading: loading })).toBe('node_b')
    expect(pair({ reading: fast }, { inFlight: 1, reading: { ...loading, loadEwmaMs: 5_000 } })).toBe('node_a')
  })

  test('§29: no doubt loads a model beside one that has it in memory', () => {
    expect(pair({ reading: { lagMs: 100 } }, { reading: { cold: true, explorationMs: 60_000 } })).toBe('node_a')
  })

  test('equal prompts go to the same of equal machines, different ones to all; every gateway agrees', () => {
    const pool = 'abcdefgh'.split('').map((name) => route(name))
    const of = (first: number, routes: readonly Route[]) =>
      chosen(decide(routes, request({ prompt: { ...prompt, first } })))
    const counts = new Map<string | null, number>()
    for (let first = 0; first < 800; first++) {
      const node = of(first * 1_000_003, pool)
      expect(of(first * 1_000_003, pool.toReversed())).toBe(node)
      counts.set(node, (counts.get(node) ?? 0) + 1)
    }
    for (const name of 'abcdefgh') expect(counts.get(`node_${name}`) ?? 0).toBeGreaterThan(50)
  })

  test('without a prompt the least busy', () => {
    expect(pair({ inFlight: 2 }, { inFlight: 1 }, { prompt: null })).toBe('node_b')
    expect(pair({ inFlight: 1 }, { inFlight: 2 }, { prompt: null })).toBe('node_a')
  })
})

describe('§8 ejection and hold-down', () => {
  const ejected = { ejectedUntilMs: nowMs + 1 }
  const held = { heldUntilMs: nowMs + 1 }

  test('an ejected route gets nothing while another is left', () => {
    expect(spread([route('a', ejected), route('b', { inFlight: 50 })], request())).toEqual(['node_b'])
  })

  test('its time over, it is back', () => {
    expect(chosen(decide([route('a', { ejectedUntilMs: nowMs }), route('b', { inFlight: 1 })], request()))).toBe(
      'node_a',
    )
  })

  test('never the last route of a model', () => {
    expect(chosen(decide([route('a', ejected)], request()))).toBe('node_a')
    expect(chosen(decide([route('a', ejected), route('b', { ready: false })], request()))).toBe('node_a')
    expect(chosen(decide([route('a', ejected), route('b', ejected)], request()))).toBe('node_a')
  })

  test('never the last route in scope, whatever others have', () => {
    expect(chosen(decide([route('a', ejected), route('b')], request({ nodeScope: ['node_a'] })))).toBe('node_a')
    expect(chosen(decide([route('a', ejected), route('t', others)], request()))).toBe('node_a')
  })

  test('ignored when fewer than half remain', () => {
    const four = [route('a', ejected), route('b', ejected), route('c', ejected), route('d', { inFlight: 3 })]
    expect(spread(four, request())).toContain('node_a')
    const two = [route('a', ejected), route('b', ejected), route('c'), route('d')]
    expect(spread(two, request())).toEqual(['node_c', 'node_d'])
  })

  test('when all healthy ones were tried, an ejected one is tried before giving up', () => {
    expect(chosen(decide([route('a', ejected), route('b')], request({ exclude: ['mp_b'] })))).toBe('node_a')
  })

  test('full healthy routes are waited for, an ejected one is not used for overflow', () => {
    expect(code(decide([route('a', ejected), route('b', { slotsTotal: 1, inFlight: 1 })], request()))).toBe('saturated')
  })

  test('a node held down gets nothing while another is left, and never loses the last route', () => {
    expect(chosen(decide([route('a', held), route('b', { inFlight: 50 })], request()))).toBe('node_b')
    expect(chosen(decide([route('a', held)], request()))).toBe('node_a')
    expect(chosen(decide([route('a', held), route('b', { ready: false })], request()))).toBe('node_a')
  })
})

describe('explain', () => {
  test('says of every route why', () => {
    const pool = [
      route('a', { inFlight: 2, ttftEwmaMs: 120 }),
      route('b'),
      route('c', { ready: false, nodeState: 'stale' }),
      route('d', { ejectedUntilMs: nowMs + 1 }),
      route('e', { slotsTotal: 1, inFlight: 1 }),
      route('f', { customerId: 'them' }),
      route('g', { ...others }),
      route('h', { heldUntilMs: nowMs + 1 }),
    ]
    const all = table(...pool)
    const wanted = request()
    const placement = place(all, wanted)
    const reasons = explainPlacement(all, wanted, placement).map((entry) => [
      entry.node_id,
      entry.verdict,
      entry.reason,
    ])
    expect(reasons).toEqual([
      ['node_a', 'eligible', 'less_preferred'],
      ['node_b', 'chosen', 'load'],
      ['node_c', 'refused', 'not_ready'],
      ['node_d', 'refused', 'ejected'],
      ['node_e', 'refused', 'full'],
      ['node_f', 'refused', 'not_visible'],
      ['node_g', 'refused', 'privacy_class'],
      ['node_h', 'refused', 'held_down'],
    ])
  })

  test('policy, pin and own machines first', () => {
    const pool = table(route('a'), route('t', others))
    const why = (wanted: PlacementRequest) =>
      explainPlacement(pool, wanted, place(pool, wanted)).map((entry) => entry.reason)
    expect(why(request({ key: { denied_models: ['m'] } }))).toEqual(['model_policy', 'model_policy'])
    expect(why(request({ pin: 'node_t' }))).toEqual(['pin_forbidden', 'pin_forbidden'])
    expect(why(request({ account: openPolicy, key: openPolicy }))).toEqual(['only', 'own_machines_first'])
  })

  test('what another profile was asked for is no matter of the policy, nor is what the caller cannot see', () => {
    const pool = table(route('a'), route('b'), route('f', { customerId: 'them' }))
    const wanted = request({ profileId: 'mp_a', key: { denied_models: ['m'] } })
    const reasons = explainPlacement(pool, wanted, place(pool, wanted)).map(({ reason }) => reason)
    expect(reasons).toEqual(['model_policy', 'other_profile', 'not_visible'])
    const none = request({ profileId: 'mp_x', key: { denied_models: ['m'] } })
    expect(code(place(pool, none))).toBe('model_not_found')
  })

  test('a context below the estimate', () => {
    const pool = table(
      route('a', { contextLength: 100 }),
      route('b', { contextLength: 200 }),
      route('c', { contextLength: 300 }),
      route('t', { ...others, contextLength: 100 }),
    )
    const wanted = request({ account: openPolicy, key: openPolicy, contextWanted: 150 })
    const reasons = explainPlacement(pool, wanted, place(pool, wanted)).map(({ reason }) => reason)
    expect(reasons).toEqual(['context_tight', 'load', 'less_preferred', 'context_tight'])
  })
})

describe('properties', () => {
  const arbitraryRoute = fc
    .record({
      owner: fc.constantFrom('me', 'them'),
      visibility: fc.constantFrom('private' as const, 'public' as const),
      privacyClass: fc.constantFrom('public' as const, 'trusted' as const, 'private' as const),
      ready: fc.boolean(),
      slotsTotal: fc.constantFrom(null, 1, 2),
      inFlight: fc.nat(3),
      ejected: fc.boolean(),
      held: fc.boolean(),
    })
    .map((given) => given)
  const arbitraryPool = fc.array(arbitraryRoute, { maxLength: 8 }).map((list) =>
    list.map(({ owner, ejected, held, ...rest }, at) =>
      route(String(at), {
        ...rest,
        customerId: owner,
        ejectedUntilMs: ejected ? nowMs + 1 : 0,
        heldUntilMs: held ? nowMs + 1 : 0,
      }),
    ),
  )
  const arbitraryRequest = fc
    .record({
      account: fc.constantFrom(undefined, openPolicy),
      key: fc.constantFrom(undefined, openPolicy),
      scope: fc.option(fc.subarray(['node_0', 'node_1', 'node_2', 'node_3']), { nil: undefined }),
      tried: fc.subarray(['mp_0', 'mp_1', 'mp_2']),
    })
    .map(({ account, key, scope, tried }) =>
      request({
        exclude: tried,
        ...(account && { account }),
        ...(key && { key }),
        ...(scope && { nodeScope: scope }),
      }),
    )

  test('§8: nothing crosses: a placed route is ready, free, in scope, untried, and own unless both policies say so', () => {
    fc.assert(
      fc.property(arbitraryPool, arbitraryRequest, (pool, wanted) => {
        const placement = decide(pool, wanted)
        if (placement.kind !== 'placed') return
        const { route: taken } = placement
        const { policy } = wanted.access
        expect(taken.ready).toBe(true)
        expect(taken.slotsTotal === null || taken.load.inFlight < taken.slotsTotal).toBe(true)
        expect(wanted.exclude.has(taken.profileId)).toBe(false)
        expect(policy.nodeScope === null || policy.nodeScope.has(taken.nodeId)).toBe(true)
        if (taken.customerId !== 'me') expect(`${taken.visibility} ${policy.minPrivacyRank}`).toBe('public 0')
      }),
      { numRuns: 500 },
    )
  })

  test('§8: ejection and hold-down alone never leave a model without a route', () => {
    fc.assert(
      fc.property(arbitraryPool, arbitraryRequest, (pool, wanted) => {
        const well = pool.map((entry) => ({ ...entry, heldUntilMs: 0, load: { ...entry.load, ejectedUntilMs: 0 } }))
        const ill = decide(pool, wanted).kind
        // Saturated is a short wait for a healthy route and no refusal.
        expect(ill === 'refused').toBe(decide(well, wanted).kind === 'refused')
      }),
      { numRuns: 500 },
    )
  })

  test('explain agrees with place', () => {
    fc.assert(
      fc.property(arbitraryPool, arbitraryRequest, (pool, wanted) => {
        const all = table(...pool)
        const placement = place(all, wanted)
        const explained = explainPlacement(all, wanted, placement)
        const verdicts = explained.map((entry) => entry.verdict)
        expect(verdicts.filter((verdict) => verdict === 'chosen')).toHaveLength(placement.kind === 'placed' ? 1 : 0)
        if (placement.kind !== 'placed') expect(verdicts).not.toContain('eligible')
        else expect(verdicts.filter((verdict) => verdict !== 'refused')).toHaveLength(placement.open.length)
      }),
      { numRuns: 500 },
    )
  })
})
