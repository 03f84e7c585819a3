import { describe, expect, test } from 'bun:test'
import { meantModel, type NamedModel } from '../../../src/machines/rules/eligibility.ts'
import type { Route, RoutingTable } from '../../../src/machines/rules/routing.ts'
import { request, route, table } from './routes.ts'

const openPolicy = { min_privacy_class: 'public' } as const
const openly = { account: openPolicy, key: openPolicy }
const theirs = { customerId: 'them', visibility: 'public', privacyClass: 'public' } as const

/** An Ollama's models are found without their tag, too. */
function tagged(...routes: readonly Route[]): RoutingTable {
  const latest = new Map<string, Route[]>()
  for (const one of routes) {
    const name = one.modelId.replace(/:latest$/, '')
    if (name !== one.modelId) latest.set(name, [...(latest.get(name) ?? []), one])
  }
  return { ...table(...routes), latest }
}

const meant = (
  routes: readonly Route[],
  change: Parameters<typeof request>[0] = {},
  more: Partial<Pick<NamedModel, 'ownOnly' | 'otherName'>> = {},
) => meantModel({ table: tagged(...routes), access: request(change).access, name: 'llama3', ...more })

const plain = (change: Parameters<typeof route>[1] = {}) => route('plain', { modelId: 'llama3', ...change })
const latest = (change: Parameters<typeof route>[1] = {}) => route('latest', { modelId: 'llama3:latest', ...change })

describe('§28: a model name without a tag', () => {
  test('means the model that is called exactly so, else the one with the tag latest, else itself', () => {
    expect(meant([plain(), latest()])).toBe('llama3')
    expect(meant([latest()])).toBe('llama3:latest')
    expect(meant([route('other', { modelId: 'qwen' })])).toBe('llama3')
    expect(meant([])).toBe('llama3')
  })

  test.each<readonly [string, Parameters<typeof route>[1], Parameters<typeof request>[0]]>([
    ['of which the caller sees nothing', { customerId: 'them' }, openly],
    ['whose privacy class the caller does not allow', theirs, {}],
    ['out of the scope of the key', {}, { nodeScope: ['node_latest'] }],
    ['of a class of nodes that the policy does not name', { nodeClass: 'cpu' }, { account: { route_tiers: ['gpu'] } }],
    ['of a hosted provider that the policy does not allow', { external: true }, {}],
  ])('a model %s changes nothing', (_what, change, asked) => {
    expect(meant([plain(change), latest()], asked)).toBe('llama3:latest')
    expect(meant([plain(), latest()], asked)).toBe(asked?.nodeScope === undefined ? 'llama3' : 'llama3:latest')
    expect(meant([latest({ ...change, customerId: 'them', visibility: 'private' })], asked)).toBe('llama3')
  })

  test('where only own machines count, others’ models change nothing', () => {
    const pool = [plain(theirs), latest()]
    expect(meant(pool, openly)).toBe('llama3')
    expect(meant(pool, openly, { ownOnly: true })).toBe('llama3:latest')
    expect(meant([plain(), latest()], openly, { ownOnly: true })).toBe('llama3')
  })

  test('a further name counts where a model that the caller may use is called so', () => {
    const otherName = (name: string) => `${name}:8b`
    const named = (change: Parameters<typeof route>[1] = {}) => route('named', { modelId: 'llama3:8b', ...change })
    expect(meant([named()], {}, { otherName })).toBe('llama3:8b')
    expect(meant([named({ customerId: 'them' })], openly, { otherName })).toBe('llama3')
    expect(meant([named(), latest()], {}, { otherName })).toBe('llama3:latest')
    expect(meant([named(), plain()], {}, { otherName })).toBe('llama3')
    expect(meant([named()], {}, { otherName: () => null })).toBe('llama3')
    expect(meant([], {}, { otherName })).toBe('llama3')
  })
})
