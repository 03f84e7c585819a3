import { expect, test } from 'bun:test'
import { loadsOf, withLoads } from '../../../src/actors/siblings/loads.ts'
import type { FirstToken } from '../../../src/protocol/wire/admin/admin.ts'
import type { LiveNode } from '../../../src/protocol/wire/admin/inspect.ts'

const node = (first: FirstToken | null, inFlight = 0) =>
  ({
    node_id: 'node_a',
    in_flight: inFlight,
    usage_claims: { calls: 0, at_bound: 0, review: false },
    runtimes: [
      {
        models: [
          { model_profile_id: 'mp_a', in_flight: inFlight, first_token: first, ttft_ewma_ms: first?.ms ?? null },
        ],
      },
    ],
  }) as unknown as LiveNode
const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1_000).toISOString()
const shown = (own: LiveNode, ...others: readonly LiveNode[]) =>
  withLoads(
    [own],
    others.map((other) => loadsOf([other])),
  )[0]?.runtimes[0]?.models[0]

test('§33: whichever process is asked shows the last first token of all, and no mean of them', () => {
  const [slow, fast] = [node({ ms: 1_900, at: at(1), of: 7 }, 1), node({ ms: 40, at: at(2), of: 5 })]
  const last = { first_token: { ms: 40, at: at(2), of: 7 }, ttft_ewma_ms: 40, in_flight: 1 }
  expect(shown(slow, fast)).toMatchObject(last)
  expect(shown(fast, slow)).toMatchObject(last)
  expect(shown(node(null), slow)).toMatchObject({ first_token: { ms: 1_900, of: 7 } })
  expect(shown(node(null), node(null, 2))).toMatchObject({ first_token: null, ttft_ewma_ms: null, in_flight: 2 })
})
