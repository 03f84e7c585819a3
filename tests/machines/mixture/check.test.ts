import { describe, expect, test } from 'bun:test'
import { checkMixture, estimateTokens, subCallPlacement } from '../../../src/machines/mixture/check.ts'
import { mixtureDeadlines } from '../../../src/machines/mixture/deadlines.ts'
import { planExperts } from '../../../src/machines/mixture/plan.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { promptTokens } from '../../../src/protocol/chat/token-estimate.ts'
import { nowMs, route, table } from '../rules/routes.ts'
import { mixtureRequest, own, synthesize, vote } from './requests.ts'

type Change = Parameters<typeof mixtureRequest>[1]
const checked = (mixture: unknown, change?: Change) => {
  const result = checkMixture(mixtureRequest(mixture, change))
  return result.kind === 'refused' ? [result.problem.code, result.problem.options.param ?? null] : result.accepted
}
const accepted = (mixture: unknown, change?: Change) => {
  const result = checkMixture(mixtureRequest(mixture, change))
  if (result.kind === 'refused') throw result.problem
  return result.accepted
}

describe('§7, validation', () => {
  test('what is left out has its default', () => {
    const { config } = accepted({
      strategy: 'vote',
      experts: [{ model: 'a' }, { model: 'b', weight: 0.5 }, { model: 'a' }],
    })
    expect(config).toEqual({
      strategy: 'vote',
      experts: [
        { model: 'a', weight: 1 },
        { model: 'b', weight: 0.5 },
        { model: 'a', weight: 1 },
      ],
      aggregator: null,
      minExperts: 2,
    })
  })

  test('a refusal behind the configuration still knows it', () => {
    const result = checkMixture(mixtureRequest(vote('a'), { account: { denied_models: ['a'] } }))
    expect(result).toMatchObject({
      kind: 'refused',
      config: { strategy: 'vote' },
      problem: { code: 'model_not_allowed' },
    })
  })

  test('an unknown key is shown by a name only where it is one', () => {
    expect(checked({ ...vote('a'), 'x y': 1 })).toEqual(['mixture_invalid', 'svc.mixture.*'])
  })

  test('policy: a denial of the name is enough, no matter who serves it', () => {
    const change = { account: { allowed_models: ['a'] } }
    expect(checked(vote('a', 'nobody-has-it'), change)).toEqual(['model_not_allowed', 'svc.mixture.experts[1].model'])
  })

  test('policy: an alias of a denied model is denied', () => {
    const routes = [own('a'), own('b', { modelNames: ['b', 'bee'] })]
    const change = { routes, account: { denied_models: ['b'] } }
    expect(checked(vote('a', 'bee'), change)).toEqual(['model_not_allowed', 'svc.mixture.experts[1].model'])
  })

  test('a model that nobody serves is left to its sub-call; one that only machines below the class serve is refused', () => {
    const foreign = route('far', { modelId: 'far', customerId: 'other', visibility: 'public', privacyClass: 'trusted' })
    expect(accepted(vote('a', 'nobody-has-it')).config.experts).toHaveLength(2)
    const routes = [own('a'), foreign]
    expect(checked(vote('a', 'far'), { routes })).toEqual(['privacy_class_not_allowed', 'svc.mixture.experts[1].model'])
  })
})

describe('§7, token estimate', () => {
  const { promptTokens: prompt, outputTokens } = accepted(vote('a'))
  test('P is the estimate of the prompt, M what is asked for or 1 024', () => {
    expect([prompt, outputTokens]).toEqual([promptTokens(mixtureRequest(null).body), 1_024])
    expect(accepted(vote('a'), { body: { max_tokens: 7 } }).outputTokens).toBe(7)
    expect(accepted(vote('a'), { body: { max_completion_tokens: 8 } }).outputTokens).toBe(8)
    expect(accepted(vote('a'), { account: { max_tokens_per_request: 9 } }).outputTokens).toBe(9)
  })

  test('Σ experts (P + M); with an aggregator P + k·M + 220 + M more', () => {
    const { config: three } = accepted(vote('a', 'b', 'c'))
    expect(estimateTokens(three, 100, 10)).toBe(330)
    const { config: two } = accepted(synthesize('a', 'b'))
    expect(estimateTokens(two, 100, 10)).toBe(2 * 110 + 100 + 2 * 10 + 220 + 10)
  })

  test('the budget itself is allowed, one token more is not', () => {
    const body = (tokens: number) => ({ body: { max_tokens: tokens } })
    const most = Math.floor(65_536 / 2) - prompt
    expect(accepted(vote('a', 'b'), body(most)).estimate).toBe(65_536)
    expect(checked(vote('a', 'b'), body(most + 1))).toEqual(['mixture_token_budget_exceeded', 'svc.mixture'])
  })
})

test('§7, deadlines: 65 % for experts before an aggregator, else all but one second; what has passed counts', () => {
  expect(mixtureDeadlines(synthesize('a'), 100_000, 0)).toEqual({ expertsMs: 65_000, wallMs: 100_000 })
  expect(mixtureDeadlines(vote('a'), 100_000, 500)).toEqual({ expertsMs: 98_500, wallMs: 99_500 })
  for (const given of [null, 'vote', { strategy: 'constructor' }]) {
    expect(mixtureDeadlines(given, 5_000, 6_000)).toEqual({ expertsMs: 0, wallMs: 0 })
  }
})

describe('planning', () => {
  const placed = (routes: readonly Route[], ...models: readonly string[]) => {
    const { access } = mixtureRequest(null)
    const requests = models.map((model) => subCallPlacement({ access, nowMs }, model))
    const decided: string[] = []
    const plan = planExperts(table(...routes), requests, ({ modelId }, { kind }) => decided.push(`${modelId} ${kind}`))
    return {
      plan: plan.map((item) => (item.kind === 'placed' ? item.route.nodeId : item.kind)),
      decided,
      plan0: plan[0],
    }
  }

  test('experts of one model spread over its machines, as if those before had been sent', () => {
    const twins = [own('a'), route('a2', { modelId: 'a' })] as const
    const { plan } = placed([...twins], 'a', 'a', 'a', 'a')
    expect(plan.toSorted()).toEqual(['node_a', 'node_a', 'node_a2', 'node_a2'])
  })

  test('slots that the mixture itself takes are taken', () => {
    expect(placed([own('a', { slotsTotal: 1 })], 'a', 'a').plan).toEqual(['node_a', 'full'])
  })

  test('the route is the table’s own, with its live load', () => {
    const a = own('a')
    const { plan0 } = placed([a], 'a')
    expect(plan0).toEqual({ kind: 'placed', route: a })
    expect(plan0?.kind === 'placed' && plan0.route.load).toBe(a.load)
  })

  test('foreign and unready machines, unknown models: no node; each decision is told', () => {
    const foreign = route('far', { modelId: 'far', customerId: 'other', visibility: 'public' })
    const { plan, decided } = placed([own('a', { ready: false }), foreign], 'a', 'far', 'nobody')
    expect(plan).toEqual(['no_node', 'no_node', 'no_node'])
    expect(decided).toEqual(['a refused', 'far refused', 'nobody refused'])
  })
})
