import { describe, expect, test } from 'bun:test'
import { callableNames, placementRefusal } from '../../../src/machines/refusals/placement-refusal.ts'
import { place } from '../../../src/machines/rules/placement.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { namesComparedMax, noSuchModel } from '../../../src/protocol/validation/missing-model.ts'
import type { GatewayPolicy, ModelPolicy } from '../../../src/protocol/wire/admin/policy.ts'
import { type RouteChange, request, route, table } from '../rules/routes.ts'

type Asked = Parameters<typeof request>[0]

/** The code of the refusal and what the caller is told. */
function told(routes: readonly Route[], asked: Asked): readonly unknown[] {
  const all = table(...routes)
  const wanted = request(asked)
  const placement = place(all, wanted)
  if (placement.kind !== 'refused') throw new Error('it was not refused')
  const { code, options, message } = placementRefusal(all, wanted, placement.code)
  return [code, options.param, message]
}

const named = (name: string, change: RouteChange = {}) => route(name, { modelId: name, modelNames: [name], ...change })
const foreign = (name: string, change: RouteChange = {}) =>
  named(name, { customerId: 'other', visibility: 'public', privacyClass: 'public', ...change })

describe('§3: model_not_found', () => {
  const list = 'GET /v1/models lists what you can use.'
  const pool = [named('demo-wordplay'), named('qwen3-8b'), named('qwen3-embed', { serves: ['embedding'] })]

  test('names the nearest model that the caller may call', () => {
    expect(told(pool, { modelId: 'demo-wordplai' })).toEqual([
      'model_not_found',
      'model',
      `No model is called demo-wordplai. Did you mean demo-wordplay? ${list}`,
    ])
  })

  test('never one of others, of another policy or of another kind', () => {
    const anywhere = { account: { min_privacy_class: 'public' }, key: { min_privacy_class: 'public' } } as const
    const others: readonly (readonly [Route, Asked])[] = [
      [named('hidden-one', { customerId: 'other' }), {}],
      [foreign('hidden-one'), {}],
      [named('hidden-one'), { account: { denied_models: ['hidden*'] } }],
      [named('hidden-one', { policyNames: ['hidden-one', 'banned'] }), { account: { denied_models: ['banned'] } }],
      [foreign('hidden-one'), { ...anywhere, ownOnly: true }],
      [foreign('hidden-one', { priced: true }), { ...anywhere, freeOnly: true }],
      [named('hidden-one', { nodeClass: 'slow' }), { account: { route_tiers: ['gpu'] } }],
      [named('hidden-one'), { nodeScope: ['node_qwen3-8b'] }],
      [named('hidden-one', { serves: ['embedding'] }), {}],
    ]
    for (const [hidden, asked] of others) {
      expect(told([hidden, named('qwen3-8b')], { ...asked, modelId: 'hidden-on' })).toEqual([
        'model_not_found',
        'model',
        `No model has this name. ${list}`,
      ])
    }
  })

  test('a name that is near to none is not repeated', () => {
    expect(told(pool, { modelId: 'the-prompt-of-somebody' })[2]).toBe(`No model has this name. ${list}`)
    expect(noSuchModel('x'.repeat(10_000), ['x'])).toBe(`No model has this name. ${list}`)
  })

  test('owner, tag and case are no other name', () => {
    expect(noSuchModel('Wordplay', ['demo/wordplay'])).toBe(
      `No model has this name. Did you mean demo/wordplay? ${list}`,
    )
    expect(noSuchModel('qwen3:8b', ['llama', 'qwen3'])).toBe(`No model has this name. Did you mean qwen3? ${list}`)
    expect(noSuchModel('QWEN3-8B', ['qwen3-8b'], '/api/tags')).toBe(
      'No model is called QWEN3-8B. Did you mean qwen3-8b? GET /api/tags lists what you can use.',
    )
  })

  test('of a large pool only some names are looked at', () => {
    const large = Array.from({ length: 5_000 }, (_, at) => named(`model-${at}`))
    expect([...callableNames(table(...large), request({}))].length).toBeLessThan(5_000)
    let taken = 0
    function* names() {
      for (;;) yield `name-${taken++}`
    }
    noSuchModel('nothing', names())
    expect(taken).toBeLessThanOrEqual(namesComparedMax + 1)
  })
})

test('§3: context_length_exceeded has both numbers, and says whose the first one is', () => {
  const routes = [named('small', { contextLength: 8_192 })]
  const more = named('more', { modelId: 'small', modelNames: ['small'], contextLength: 4_096 })
  expect(told([...routes, more], { modelId: 'small', contextLeast: 20_012, contextWanted: 40_000 })).toEqual([
    'context_length_exceeded',
    'messages',
    "The prompt has at least 20,012 tokens by the gateway's estimate; small takes 8,192.",
  ])
})

describe('§3: privacy_class_not_allowed says whose bound it is, and what to change', () => {
  const cases: readonly (readonly [
    string,
    RouteChange,
    { readonly account?: GatewayPolicy; readonly key?: ModelPolicy },
    string,
  ])[] = [
    [
      'both',
      {},
      {},
      "This key and its account may use only private nodes, which are your own, and none serves far. Ask the operator to set the key's and the account's min_privacy_class to public.",
    ],
    [
      'the key',
      {},
      { account: { min_privacy_class: 'public' } },
      "This key may use only private nodes, which are your own, and none serves far. Ask the operator to set the key's min_privacy_class to public.",
    ],
    [
      'the account',
      {},
      { key: { min_privacy_class: 'public' } },
      "The account of this key may use only private nodes, which are your own, and none serves far. Ask the operator to set the account's min_privacy_class to public.",
    ],
    [
      'each another class',
      {},
      { account: { min_privacy_class: 'trusted' }, key: { min_privacy_class: 'private' } },
      "This key may use only private nodes, which are your own, its account only trusted nodes and your own, and none serves far. Ask the operator to set the key's and the account's min_privacy_class to public.",
    ],
    [
      'a trusted node',
      { privacyClass: 'trusted' },
      { account: { min_privacy_class: 'trusted' } },
      "This key may use only private nodes, which are your own, and none serves far. Ask the operator to set the key's min_privacy_class to trusted.",
    ],
  ]
  test.each(cases)('%s', (_name, change, policies, detail) => {
    expect(told([foreign('far', change)], { modelId: 'far', ...policies })).toEqual([
      'privacy_class_not_allowed',
      'model',
      detail,
    ])
  })

  test('an operator without a key', () => {
    const all = table(foreign('far'))
    const wanted = request({ modelId: 'far' })
    const { access } = wanted
    const policy = { ...access.policy, bounds: { ...access.policy.bounds, key: null } }
    const problem = placementRefusal(all, { ...wanted, access: { ...access, policy } }, 'privacy_class_not_allowed')
    expect(problem.message).toBe(
      "This account may use only private nodes, which are your own, and none serves far. Ask the operator to set the account's min_privacy_class to public.",
    )
  })

  test('a hosted provider', () => {
    const provider = [named('far', { external: true })]
    expect(told(provider, { modelId: 'far', account: { allow_external: true } })).toEqual([
      'privacy_class_not_allowed',
      'model',
      "Only a hosted provider serves far, and the key's policy keeps prompts from it. Ask the operator to set the key's allow_external to true.",
    ])
  })

  test('a request that may use own nodes alone is not sent to the operator', () => {
    expect(told([foreign('far')], { modelId: 'far', ownOnly: true })[2]).toEndWith(
      'This request may use your own nodes alone: connect one that serves far.',
    )
  })
})
