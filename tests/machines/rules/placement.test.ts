import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { explainPlacement } from '../../../src/machines/rules/explain.ts'
import { type Placement, type PlacementRequest, place } from '../../../src/machines/rules/placement.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { nowMs, request, route, seeded, table } from './routes.ts'

const half = () => 0.5
const chosen = (placement: Placement) => (placement.kind === 'placed' ? placement.route.nodeId : null)
const code = (placement: Placement) => (placement.kind === 'refused' ? placement.code : placement.kind)
const decide = (routes: readonly Route[], wanted: PlacementRequest, random = half) =>
  place(table(...routes), wanted, random)

/** How often each node was chosen in 2,000 placements with nothing changing between them. */
function spread(routes: readonly Route[], wanted: PlacementRequest): Record<string, number> {
  const random = seeded(7)
  const counts: Record<string, number> = {}
  for (let i = 0; i < 2_000; i++) {
    const node = chosen(decide(routes, wanted, random)) ?? 'none'
    counts[node] = (counts[node] ?? 0) + 1
  }
  return counts
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
    const pool = [route('a'), route('b'), route('t1', others), route('t2', others)]
    expect(chosen(decide(pool, request({ ...open, exclude: ['mp_a'] })))).toBe('node_b')
    expect(code(decide(pool, request({ ...open, exclude: ['mp_a', 'mp_b'] })))).toBe('no_route_available')
    expect(chosen(decide(pool, request({ ...open, exclude: ['mp_t1'] })))).toBe('node_t2')
    expect(code(decide(pool, request({ ...open, exclude: ['mp_t1', 'mp_t2'] })))).toBe('no_route_available')
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

describe('§8 choice: power of two choices', () => {
  test('of two, the one with the lower (in flight + 1) × EWMA / slots', () => {
    const pair = (a: object, b: object) => chosen(decide([route('a', a), route('b', b)], request()))
    expect(pair({ inFlight: 3 }, { inFlight: 2 })).toBe('node_b')
    expect(pair({ inFlight: 2 }, { inFlight: 3 })).toBe('node_a')
    expect(pair({ ttftEwmaMs: 200 }, { ttftEwmaMs: 100 })).toBe('node_b')
    expect(pair({ inFlight: 1, ttftEwmaMs: 100 }, { ttftEwmaMs: 250 })).toBe('node_a')
    expect(pair({ inFlight: 4, slotsTotal: 16 }, { inFlight: 1, slotsTotal: 4 })).toBe('node_a')
    expect(pair({ slotsTotal: 2 }, { slotsTotal: 8 })).toBe('node_b')
  })

  test('tie → lowest node id', () => {
    expect(chosen(decide([route('b'), route('a')], request()))).toBe('node_a')
  })

  test('an unmeasured route counts as the mean of the measured', () => {
    expect(chosen(decide([route('a'), route('b', { ttftEwmaMs: 500 })], request()))).toBe('node_a')
    expect(chosen(decide([route('a', { inFlight: 1 }), route('b', { ttftEwmaMs: 500 })], request()))).toBe('node_b')
  })

  test('equal routes share the work', () => {
    const random = seeded(3)
    const pool = 'abcdefgh'.split('').map((name) => route(name))
    for (let i = 0; i < 800; i++) {
      const placement = decide(pool, request(), random)
      if (placement.kind === 'placed') placement.route.load.inFlight++
    }
    for (const { load } of pool) expect(Math.abs(load.inFlight - 100)).toBeLessThanOrEqual(5)
  })

  test('the slowest of eight gets nothing while the others are idle', () => {
    const pool = 'abcdefgh'.split('').map((name) => route(name, { ttftEwmaMs: name === 'a' ? 900 : 100 }))
    expect(spread(pool, request()).node_a).toBeUndefined()
  })

  test('the two compared are never the same route', () => {
    const pool = [route('a', { inFlight: 9 }), route('b')]
    expect(spread(pool, request())).toEqual({ node_b: 2_000 })
  })
})

describe('§8 prefix affinity', () => {
  test('the node that served the prefix is preferred', () => {
    const placement = decide([route('a'), route('b', { ttftEwmaMs: 900 })], request({ affinityNodeId: 'node_b' }))
    expect(placement).toMatchObject({ kind: 'placed', chosenBy: 'affinity' })
    expect(chosen(placement)).toBe('node_b')
  })

  test('while it is not busier than 1.25 × the mean and one request', () => {
    const at = (inFlight: number) =>
      chosen(decide([route('a', { inFlight: 9 }), route('b', { inFlight })], request({ affinityNodeId: 'node_b' })))
    // Of (10, x) slots in use with this one: x ≤ 1.25 × (10 + x) / 2 + 1 up to x = 19.
    expect(at(18)).toBe('node_b')
    expect(at(19)).toBe('node_a')
  })

  test('an affinity to a node that cannot serve changes nothing', () => {
    const pool = [route('a'), route('b', { ready: false })]
    expect(chosen(decide(pool, request({ affinityNodeId: 'node_b' })))).toBe('node_a')
    expect(chosen(decide([route('a'), route('b')], request({ affinityNodeId: 'node_x' })))).toBe('node_a')
  })
})

describe('§8 ejection and hold-down', () => {
  const ejected = { ejectedUntilMs: nowMs + 1 }
  const held = { heldUntilMs: nowMs + 1 }

  test('an ejected route gets nothing while another is left', () => {
    expect(spread([route('a', ejected), route('b', { inFlight: 50 })], request())).toEqual({ node_b: 2_000 })
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
    const four = [route('a', ejected), route('b', ejected), route('c', ejected), route('d', { inFlight: 9 })]
    expect(Object.keys(spread(four, request())).sort()).toContain('node_a')
    const two = [route('a', ejected), route('b', ejected), route('c'), route('d')]
    expect(spread(two, request())).toEqual({ node_c: 2_000 })
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
    const placement = place(all, wanted, () => 0)
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
      explainPlacement(pool, wanted, place(pool, wanted, half)).map((entry) => entry.reason)
    expect(why(request({ key: { denied_models: ['m'] } }))).toEqual(['model_policy', 'model_policy'])
    expect(why(request({ pin: 'node_t' }))).toEqual(['pin_forbidden', 'pin_forbidden'])
    expect(why(request({ account: openPolicy, key: openPolicy }))).toEqual(['only', 'own_machines_first'])
  })

  test('a context below the estimate', () => {
    const pool = table(
      route('a', { contextLength: 100 }),
      route('b', { contextLength: 200 }),
      route('c', { contextLength: 300 }),
      route('t', { ...others, contextLength: 100 }),
    )
    const wanted = request({ account: openPolicy, key: openPolicy, contextWanted: 150 })
    const reasons = explainPlacement(
      pool,
      wanted,
      place(pool, wanted, () => 0),
    ).map(({ reason }) => reason)
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
      fc.property(arbitraryPool, arbitraryRequest, fc.integer(), (pool, wanted, seed) => {
        const placement = decide(pool, wanted, seeded(seed))
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
      fc.property(arbitraryPool, arbitraryRequest, fc.integer(), (pool, wanted, seed) => {
        const well = pool.map((entry) => ({ ...entry, heldUntilMs: 0, load: { ...entry.load, ejectedUntilMs: 0 } }))
        const ill = decide(pool, wanted, seeded(seed)).kind
        // Saturated is a short wait for a healthy route and no refusal.
        expect(ill === 'refused').toBe(decide(well, wanted, seeded(seed)).kind === 'refused')
      }),
      { numRuns: 500 },
    )
  })

  test('explain agrees with place', () => {
    fc.assert(
      fc.property(arbitraryPool, arbitraryRequest, fc.integer(), (pool, wanted, seed) => {
        const all = table(...pool)
        const placement = place(all, wanted, seeded(seed))
        const explained = explainPlacement(all, wanted, placement)
        const verdicts = explained.map((entry) => entry.verdict)
        expect(verdicts.filter((verdict) => verdict === 'chosen')).toHaveLength(placement.kind === 'placed' ? 1 : 0)
        if (placement.kind !== 'placed') expect(verdicts).not.toContain('eligible')
        else expect(verdicts.filter((verdict) => verdict !== 'refused')).toHaveLength(placement.considered)
      }),
      { numRuns: 500 },
    )
  })
})
