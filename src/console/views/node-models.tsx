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
  if (until > nowMs) return `for ${duration(until - nowMs)} more`
  return times_ejected === 0 ? nothing : `${count(times_ejected)} ${times_ejected === 1 ? 'time' : 'times'}`
}

/** What it is for, and whether it can answer: below its name, so that all columns have room on a screen of 1,280 px. */
const Name = ({ model: { model, serves, ready } }: ServedModel) => (
  <>
    {model}{' '}
    <small class="muted">
      {serves.join(', ')}
      {ready ? '' : ', not ready'}
    </small>
  </>
)

function FirstToken({ first, nowMs }: { first: NodeModel['first_token']; nowMs: number }) {
  if (first === null) return <>{nothing}</>
  return (
    <>
      {duration(first.ms)} <small class="muted">{measuredWords(first, nowMs)}</small>
    </>
  )
}

const columnsAt = (nowMs: number): readonly Column<ServedModel>[] => [
  { title: 'Model', by: ({ model }) => model.model, show: (served) => <Name {...served} /> },
  {
    title: 'Context',
    number: true,
    by: ({ model }) => model.context_length,
    show: ({ model }) => whole(model.context_length),
  },
  { title: 'Memory', by: ({ model }) => memoryOf(model, nowMs), show: ({ model }) => memoryOf(model, nowMs) },
  { title: 'In flight', number: true, by: ({ model }) => model.in_flight, show: ({ model }) => count(model.in_flight) },
  {
    title: 'Queue',
    number: true,
    by: ({ runtime }) => runtime.queue_depth,
    show: ({ runtime }) => whole(runtime.queue_depth),
  },
  {
    title: 'Still to read',
    number: true,
    by: ({ model }) => model.backlog_ms,
    show: ({ model }) => (model.backlog_ms === 0 ? nothing : duration(model.backlog_ms)),
  },
  {
    title: 'In its cache',
    number: true,
    by: ({ model }) => model.cache_match,
    show: ({ model }) => (model.cache_match === null ? nothing : percent(model.cache_match)),
  },
  {
    title: 'First token',
    number: true,
    by: ({ model }) => model.first_token?.ms ?? null,
    show: ({ model }) => <FirstToken first={model.first_token} nowMs={nowMs} />,
  },
  {
    title: 'Reads, tokens/s',
    number: true,
    by: ({ model }) => model.prompt_tokens_per_second,
    show: ({ model }) => rate(model.prompt_tokens_per_second),
  },
  {
    title: 'Writes, tokens/s',
    number: true,
    by: ({ model }) => model.tokens_per_second,
    show: ({ model }) => rate(model.tokens_per_second),
  },
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
