import type { Node } from '../../protocol/wire/admin/admin.ts'
import { amount, duration, nothing, percent } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { memoryOf, modelsOf, type NodeModel } from '../parts/node-facts.ts'

interface Placed {
  readonly model: NodeModel
  readonly queue: number | null
}

const count = (value: number | null) => value?.toLocaleString('en') ?? nothing
const rate = (value: number | null) => (value === null ? nothing : amount(value))
const numbers = (
  title: string,
  by: (placed: Placed) => number | null,
  text: (value: number | null) => string,
): Column<Placed> => ({ title, number: true, by, show: (placed) => text(by(placed)) })

const columns = (nowMs: number): readonly Column<Placed>[] => [
  { title: 'Model', by: ({ model }) => model.model, show: ({ model }) => model.model },
  {
    title: 'Ready',
    by: ({ model }) => (model.ready ? 'yes' : 'no'),
    show: ({ model }) => (model.ready ? 'yes' : 'no'),
  },
  numbers('Context', ({ model }) => model.context_length, count),
  { title: 'Memory', by: ({ model }) => memoryOf(model, nowMs), show: ({ model }) => memoryOf(model, nowMs) },
  numbers('In flight', ({ model }) => model.in_flight, count),
  numbers('Queue', ({ queue }) => queue, count),
  numbers(
    'Unread',
    ({ model }) => model.backlog_ms,
    (ms) => (ms === 0 ? nothing : duration(ms)),
  ),
  numbers(
    'In its cache',
    ({ model }) => model.cache_match,
    (share) => (share === null ? nothing : percent(share)),
  ),
  numbers('First token', ({ model }) => model.ttft_ewma_ms, duration),
  numbers('Reads tokens/s', ({ model }) => model.prompt_tokens_per_second, rate),
  numbers('Tokens/s', ({ model }) => model.tokens_per_second, rate),
  {
    title: 'Ejected',
    by: ({ model }) => model.times_ejected,
    show: ({ model: { ejected_until, times_ejected } }) => {
      const until = ejected_until === null ? 0 : Date.parse(ejected_until)
      return until > nowMs ? `for ${duration(until - nowMs)} more` : `${times_ejected} times so far`
    },
  },
]

/** What a node has of its models in memory, what waits there, and what was learnt of its speed. */
export function NodeModels({ node, nowMs }: { node: Node; nowMs: number }) {
  if (modelsOf(node).length === 0) return null
  return (
    <LongTable
      label={`Models of ${node.name}`}
      kind="inner"
      rows={node.runtimes.flatMap(({ queue_depth: queue, models }) => models.map((model) => ({ model, queue })))}
      keyOf={({ model }) => model.model_profile_id}
      textOf={({ model }) => model.model}
      columns={columns(nowMs)}
      first={{ title: 'Model', falling: false }}
    />
  )
}
