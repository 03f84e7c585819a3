import type { Node } from '../../protocol/wire/admin/admin.ts'
import { amount, count, duration, nothing } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { modelsOf } from '../parts/node-facts.ts'
import { addressOf } from '../state/place.ts'

interface PooledModel {
  readonly model: string
  /** Nodes that have it, and those of them that could answer now. */
  readonly nodes: number
  readonly ready: number
  readonly inFlight: number
  /** Of the best node. */
  readonly ttftMs: number | null
  readonly speed: number | null
}

const better = (a: number | null, b: number | null, pick: (...values: number[]) => number) =>
  a === null || b === null ? (a ?? b) : pick(a, b)

function pooled(nodes: readonly Node[]): readonly PooledModel[] {
  const found = new Map<string, PooledModel>()
  for (const node of nodes) {
    if (node.state === 'revoked') continue
    for (const each of modelsOf(node)) {
      const before = found.get(each.model)
      found.set(each.model, {
        model: each.model,
        nodes: (before?.nodes ?? 0) + 1,
        ready: (before?.ready ?? 0) + (each.ready && node.state === 'ready' ? 1 : 0),
        inFlight: (before?.inFlight ?? 0) + each.in_flight,
        ttftMs: better(before?.ttftMs ?? null, each.ttft_ewma_ms, Math.min),
        speed: better(before?.speed ?? null, each.tokens_per_second, Math.max),
      })
    }
  }
  return [...found.values()]
}

const columns: readonly Column<PooledModel>[] = [
  {
    title: 'Model',
    by: ({ model }) => model,
    show: ({ model }) => <a href={addressOf('traffic', null, { range: '24h', model })}>{model}</a>,
  },
  {
    title: 'Ready on',
    number: true,
    by: ({ ready }) => ready,
    show: ({ ready, nodes }) => `${count(ready)} of ${count(nodes)}`,
  },
  { title: 'In flight', number: true, by: ({ inFlight }) => inFlight, show: ({ inFlight }) => count(inFlight) },
  { title: 'Best first token', number: true, by: ({ ttftMs }) => ttftMs, show: ({ ttftMs }) => duration(ttftMs) },
  {
    title: 'Fastest',
    number: true,
    by: ({ speed }) => speed,
    show: ({ speed }) => (speed === null ? nothing : `${amount(speed)} tok/s`),
  },
]

/** Each model of the pool, over all of its nodes. */
export function PoolModels({ nodes }: { nodes: readonly Node[] }) {
  const models = pooled(nodes)
  if (models.length === 0) return null
  return (
    <section aria-labelledby="pool-models">
      <h2 id="pool-models">Models</h2>
      <LongTable
        label="Models"
        rows={models}
        keyOf={({ model }) => model}
        textOf={({ model }) => model}
        columns={columns}
        first={{ title: 'Model', falling: false }}
      />
    </section>
  )
}
