import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { callableNames, placementRefusal } from '../../../src/machines/refusals/placement-refusal.ts'
import { explainPlacement } from '../../../src/machines/rules/explain.ts'
import { type Placement, place } from '../../../src/machines/rules/placement.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { type RouteChange, request, route, table } from './routes.ts'

const open = { account: { min_privacy_class: 'public' }, key: { min_privacy_class: 'public' } } as const
const others = { customerId: 'them', visibility: 'public', privacyClass: 'public' } as const
const wanted = (change: Parameters<typeof request>[0] = {}) => request({ ...open, unlisted: 'brand_new', ...change })

const outcome = (placement: Placement): string => {
  if (placement.kind === 'refused') return placement.code
  return placement.kind === 'placed' ? placement.route.nodeId : placement.kind
}

describe('§35: a field that no table knows leads to own nodes alone', () => {
  const mine = (change: RouteChange = {}) => route('mine', change)
  const theirs = (change: RouteChange = {}) => route('theirs', { ...others, ...change })

  test.each<[string, readonly Route[], string]>([
    ['an own node', [mine()], 'node_mine'],
    ['an own node beside others’', [theirs(), mine()], 'node_mine'],
    ['others’ alone', [theirs()], 'invalid_request'],
    ['others’ alone, not even for nothing', [theirs({ priced: false })], 'invalid_request'],
    ['others’ alone, at a price', [theirs({ priced: true })], 'invalid_request'],
    ['others’ alone, of which none is up', [theirs({ ready: false })], 'invalid_request'],
    ['an own node that is down', [theirs(), mine({ ready: false })], 'no_route_available'],
    ['an own node that is full', [theirs(), mine({ slotsTotal: 1, inFlight: 1 })], 'saturated'],
    ['an own node for other work', [theirs(), mine({ serves: ['embedding'] })], 'invalid_request'],
    ['a private node of others does not exist', [route('theirs', { customerId: 'them' })], 'model_not_found'],
    ['no node', [], 'model_not_found'],
  ])('%s', (_name, routes, expected) => {
    expect(outcome(place(table(...routes), wanted({ freeOnly: false })))).toBe(expected)
  })

  test('an own node that failed is not made good by others’', () => {
    const pool = table(theirs(), mine())
    expect(outcome(place(pool, wanted({ exclude: ['mp_mine'], side: 'own' })))).toBe('no_route_available')
  })

  test('an own context that is too small is the reason, and not the field', () => {
    const pool = table(theirs(), mine({ contextLength: 10 }))
    expect(outcome(place(pool, wanted({ contextLeast: 11 })))).toBe('context_length_exceeded')
  })

  test('the refusal names the field and says what to do', () => {
    const asked = wanted()
    const { options } = placementRefusal(table(theirs()), asked, 'invalid_request')
    expect(options.param).toBe('brand_new')
    expect(options.detail).toBe(
      '"brand_new" is a field that this gateway does not know. It passes such a field on to your own nodes alone, as others may charge for what it does, and none of yours can serve m here. Leave the field out, or connect a node of your own.',
    )
  })

  test('`explain` says why, and no such model is proposed for a name that was misspelt', () => {
    const pool = table(theirs(), mine({ modelId: 'n' }))
    const asked = wanted()
    const explained = explainPlacement(pool, asked, place(pool, asked))
    expect(explained.map(({ verdict, reason }) => [verdict, reason])).toEqual([['refused', 'unlisted_field']])
    expect([...callableNames(pool, asked)]).toEqual(['n'])
    expect([...callableNames(pool, request(open))].sort()).toEqual(['m', 'n'])
  })

  test('whatever else holds, no node of others is chosen or waited for', () => {
    const some = fc.record({
      own: fc.boolean(),
      ready: fc.boolean(),
      priced: fc.boolean(),
      rank: fc.integer({ min: 0, max: 2 }),
      inFlight: fc.integer({ min: 0, max: 1 }),
      contextLength: fc.constantFrom(null, 50, 200),
    })
    fc.assert(
      fc.property(fc.array(some, { maxLength: 6 }), fc.boolean(), (given, freeOnly) => {
        const routes = given.map(({ own, ...change }, at) =>
          route(String(at), { ...(own ? {} : others), ...change, slotsTotal: 1 }),
        )
        const asked = wanted({ freeOnly, contextLeast: 100, contextWanted: 150 })
        const placement = place(table(...routes), asked)
        const used =
          placement.kind === 'placed' ? placement.open : placement.kind === 'saturated' ? placement.routes : []
        expect(used.every(({ customerId }) => customerId === 'me')).toBe(true)
        const mineAlone = place(table(...routes.filter(({ customerId }) => customerId === 'me')), asked)
        if (placement.kind !== 'refused') expect(outcome(placement)).toBe(outcome(mineAlone))
        else expect(mineAlone.kind).toBe('refused')
      }),
      { numRuns: 500 },
    )
  })
})
