import { afterEach, describe, expect, test } from 'bun:test'
import { NodeTokens, type TokenQuestion } from '../../../src/actors/tokens/node-tokens.ts'
import { Problem } from '../../../src/errors.ts'
import { MemoryBudget } from '../../../src/host/budget.ts'
import { LargeWork } from '../../../src/host/large-work.ts'
import { newId } from '../../../src/ids.ts'
import type { Route } from '../../../src/machines/rules/routing.ts'
import { createDirectTransport } from '../../../src/transport/http1/direct.ts'
import type { NodeTransport } from '../../../src/transport/transport.ts'
import { type RouteChange, request, route, table } from '../../machines/rules/routes.ts'
import { recorded, saying, startTokenNode, type TokenNode, type TokenScript } from '../../support/nodes/token-node.ts'

const MiB = 1024 * 1024
const nodes = new Map<string, TokenNode>()
const transports = new Map<string, NodeTransport>()
afterEach(async () => {
  for (const transport of transports.values()) transport.close()
  for (const node of nodes.values()) await node.stop()
  transports.clear()
  nodes.clear()
})

/** A route to a vLLM that really listens. */
function served(name: string, change: RouteChange = {}, script: TokenScript = saying(recorded.vllm)): Route {
  const made = route(name, { runtimeKind: 'vllm', ...change })
  const node = startTokenNode({ kind: 'vllm', model: made.modelId })
  node.answer(script)
  nodes.set(name, node)
  transports.set(made.nodeId, createDirectTransport({ url: node.url, apiKey: null, connectTimeoutMs: 5_000 }))
  return made
}

const callsTo = (name: string) => nodes.get(name)?.calls.length ?? 0

interface Asking {
  readonly nodeMs?: number
  readonly memory?: MemoryBudget
}

function askingAll(routes: readonly Route[], { nodeMs = 60_000, memory }: Asking = {}) {
  const router = { table: () => table(...routes), transport: (id: string) => transports.get(id) ?? null }
  const budget = memory ?? new MemoryBudget(64 * MiB, 64 * MiB)
  const tokens = new NodeTokens({ router, memory: budget, largeWork: new LargeWork(), nodeMs })
  const open = { min_privacy_class: 'public', allow_external: true } as const
  const { access } = request({ account: open, key: open })
  return () => {
    const signal = new AbortController().signal
    const question = { access, modelId: 'm', pin: null, profileId: null, requestId: newId('req'), signal }
    return tokens.ofChat(question as TokenQuestion, { model: 'm', messages: [{ role: 'user', content: 'hi' }] })
  }
}
const asking = (routes: readonly Route[], options: Asking = {}) => askingAll(routes, options)()

async function refusal(answer: Promise<unknown>): Promise<Problem> {
  const failed = await answer.catch((error: unknown) => error)
  if (!(failed instanceof Problem)) throw new Error('no refusal')
  return failed
}

describe('§28: whose tokenizer is asked', () => {
  test('the lowest rank first, then the one with the fewest requests, full or not', async () => {
    const routes = [
      served('spare', { rank: 5 }),
      served('busy', { inFlight: 4, slotsTotal: 4 }),
      served('idle', { inFlight: 1 }),
    ]
    expect((await asking(routes)).route.nodeId).toBe('node_idle' as never)
    expect((await asking(routes.slice(0, 2))).route.nodeId).toBe('node_busy' as never)
    expect((await asking(routes.slice(0, 1))).route.nodeId).toBe('node_spare' as never)
  })

  test('two nodes at most, of one side: where own nodes fail, no other learns of the text', async () => {
    const fails: TokenScript = () => Response.json({}, { status: 500 })
    const routes = [
      served('a', {}, fails),
      served('b', {}, fails),
      served('c', {}, fails),
      served('theirs', { customerId: 'other' as never, visibility: 'public', privacyClass: 'public' }),
    ]
    expect((await refusal(asking(routes))).code).toBe('upstream_error')
    expect(['a', 'b', 'c', 'theirs'].map(callsTo)).toEqual([1, 1, 0, 0])
    expect((await asking(routes.slice(3))).answer.ids).toHaveLength(5)
  })

  test.each([
    ['modality_not_supported', { external: true }],
    ['modality_not_supported', { runtimeKind: 'ollama' }],
    ['modality_not_supported', { customerId: 'other', visibility: 'public', privacyClass: 'public', priced: true }],
    ['no_route_available', { loaded: false }],
    ['no_route_available', { ready: false }],
    ['model_not_found', { customerId: 'other' }],
    ['modality_not_supported', { serves: ['embedding'] }],
  ] as const)('%s: not this one', async (code, change) => {
    expect((await refusal(asking([served('a', change as RouteChange)]))).code).toBe(code)
    expect(callsTo('a')).toBe(0)
  })
})

describe('§28: what a node may take', () => {
  test('a silent node is given up, and another one answers', async () => {
    const silent = served('silent', {}, () => new Promise(() => {}))
    expect((await refusal(asking([silent], { nodeMs: 20 }))).code).toBe('upstream_timeout')
    const both = [silent, served('other', { rank: 1 })]
    expect((await asking(both, { nodeMs: 1_000 })).route.nodeId).toBe('node_other' as never)
  })

  test('four questions at a time and node; the next one goes elsewhere, or is refused', async () => {
    const free = Promise.withResolvers<void>()
    const slow = served('slow', {}, async (call) => {
      await free.promise
      return saying(recorded.vllm)(call)
    })
    const alone = askingAll([slow])
    const four = Array.from({ length: 4 }, alone)
    expect((await refusal(alone())).code).toBe('capacity_exhausted')
    const both = askingAll([slow, served('other', { rank: 1 })])
    const first = Array.from({ length: 4 }, both)
    expect((await both()).route.nodeId).toBe('node_other' as never)
    free.resolve()
    for (const answer of [...four, ...first]) expect((await answer).route.nodeId).toBe('node_slow' as never)
    expect((await alone()).route.nodeId).toBe('node_slow' as never)
  })

  test('a long answer counts for the customer while it is read, and is given back', async () => {
    const ids = Array.from({ length: 100_000 }, () => 123_456)
    const long = served('long', {}, () => Response.json({ count: ids.length, tokens: ids }))
    const memory = new MemoryBudget(64 * MiB, 64 * MiB)
    expect((await asking([long], { memory })).answer.ids).toHaveLength(ids.length)
    expect(memory.bytes).toBe(0)
    const small = new MemoryBudget(MiB, MiB / 2)
    expect((await refusal(asking([long], { memory: small }))).code).toBe('rate_limited')
    expect(small.bytes).toBe(0)
  })
})
