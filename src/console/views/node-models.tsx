import type { Node } from '../../protocol/wire/admin/admin.ts'
import { ActButton, ActButtons } from '../actions/act-button.tsx'
import { declareWork } from '../actions/node-acts.ts'
import { amount, count, duration, nothing, percent } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { measuredWords, memoryOf, type NodeModel } from '../parts/node-facts.ts'

const whole = (value: number | null) => (value === null ? nothing : count(value))
const rate = (value: number | null) => (value === null ? nothing : amount(value))

interface ServedModel {
  readonly model: NodeModel
  readonly runtime: Node['runtimes'][number]
}

function ejection({ ejected_until, times_ejected }: NodeModel, nowMs: number): string {
  const until = ejected_until === null ? 0 : Date.parse(ejected_until)
  return until > nowMs ? `for ${duration(until - nowMs)} more` : `${times_ejected} times so far`
}

type Shown = readonly [
  title: string,
  by: (served: ServedModel) => number | string | null,
  show: (served: ServedModel) => string,
]

const numbers = (nowMs: number): readonly Shown[] => [
  ['Context', ({ model }) => model.context_length, ({ model }) => whole(model.context_length)],
  ['Memory', ({ model }) => memoryOf(model, nowMs), ({ model }) => memoryOf(model, nowMs)],
  ['In flight', ({ model }) => model.in_flight, ({ model }) => String(model.in_flight)],
  ['Queue', ({ runtime }) => runtime.queue_depth, ({ runtime }) => whole(runtime.queue_depth)],
  [
    'Expected to read',
    ({ model }) => model.backlog_ms,
    ({ model }) => (model.backlog_ms === 0 ? nothing : duration(model.backlog_ms)),
  ],
  [
    'In its cache',
    ({ model }) => model.cache_match,
    ({ model }) => (model.cache_match === null ? nothing : percent(model.cache_match)),
  ],
  [
    'First token',
    ({ model }) => model.first_token?.ms ?? null,
    ({ model: { first_token: first } }) =>
      first === null ? nothing : `${duration(first.ms)} (${measuredWords(first, nowMs)})`,
  ],
  [
    'Believed to read, tokens/s',
    ({ model }) => model.prompt_tokens_per_second,
    ({ model }) => rate(model.prompt_tokens_per_second),
  ],
  ['Tokens/s', ({ model }) => model.tokens_per_second, ({ model }) => rate(model.tokens_per_second)],
]

const columnsAt = (nowMs: number): readonly Column<ServedModel>[] => [
  { title: 'Model', by: ({ model }) => model.model, show: ({ model }) => model.model },
  {
    title: 'For',
    by: ({ model }) => model.serves.join(', '),
    show: ({ model }) => model.serves.join(', '),
  },
  {
    title: 'Ready',
    by: ({ model }) => (model.ready ? 'yes' : 'no'),
    show: ({ model }) => (model.ready ? 'yes' : 'no'),
  },
  ...numbers(nowMs).map(([title, by, show]) => ({ title, number: true, by, show })),
  { title: 'Ejected', by: ({ model }) => model.times_ejected, show: ({ model }) => ejection(model, nowMs) },
]

/** What a node has of its models in memory, what waits there, how fast it was measured to be, and what placement expects. */
export function NodeModels({ node, nowMs }: { node: Node; nowMs: number }) {
  const rows = node.runtimes.flatMap((runtime) => runtime.models.map((model) => ({ model, runtime })))
  if (rows.length === 0) return null
  return (
    <LongTable
      label={`Models of ${node.name}`}
      kind="inner"
      rows={rows}
      keyOf={({ model }) => model.model_profile_id}
      textOf={({ model }) => model.model}
      columns={columnsAt(nowMs)}
      first={{ title: 'Model', falling: false }}
      actions={({ model: served, model: { model, loaded } }) => (
        <>
          <ActButtons
            kind="model of a node"
            row={{ node_id: node.node_id, name: node.name, kind: node.kind, model, loaded }}
            on={`${model} on ${node.name}`}
          />
          {node.kind === 'runtime' && <ActButton act={declareWork(node, served)} on={`${model} on ${node.name}`} />}
        </>
      )}
    />
  )
}
