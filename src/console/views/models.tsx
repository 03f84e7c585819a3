import type { AdminModelList } from '../../protocol/wire/admin/catalogue.ts'
import { ActButton } from '../actions/act-button.tsx'
import { ActMenu } from '../actions/act-menu.tsx'
import { editModel, type Model, perMillion, removeEntry } from '../actions/model-acts.ts'
import { count, nothing } from '../parts/format.ts'
import { type Column, LongTable } from '../parts/long-table.tsx'
import { Pill } from '../parts/small.tsx'
import { Empty, Part } from '../parts/states.tsx'
import { UnitChoice, Wei } from '../parts/wei.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 30_000
const path = '/v1/admin/models?limit=10000'

/** What can be asked for, by which names and at which price. */
export function Models() {
  const [list, again] = useLoad<AdminModelList>(path, everyMs)
  return (
    <>
      <div class="title-row">
        <h1>Models</h1>
        <UnitChoice />
      </div>
      <Part what="the models" loaded={list} again={again}>
        {({ models }) =>
          models.length === 0 ? (
            <Empty title="No model yet">Nodes bring their models. The catalogue adds aliases and prices.</Empty>
          ) : (
            <ModelTable models={models} />
          )
        }
      </Part>
    </>
  )
}

/** Of a million tokens: of one it is too small a number to read. */
const Price = ({ wei }: { wei: string | null }) => (wei === null ? <>free</> : <Wei wei={perMillion(wei)} />)
const contextOf = (model: Model) => model.served_context_length ?? model.context_length

const columns: readonly Column<Model>[] = [
  {
    title: 'Model',
    by: ({ id }) => id,
    show: ({ id, in_catalogue }) => (
      <>
        {id} {!in_catalogue && <span class="muted">no entry</span>}
      </>
    ),
  },
  { title: 'Aliases', show: ({ aliases }) => (aliases.length === 0 ? nothing : aliases.join(', ')) },
  { title: 'Nodes', number: true, by: ({ nodes }) => nodes, show: ({ nodes }) => count(nodes) },
  {
    title: 'Ready',
    number: true,
    by: ({ nodes_ready: ready }) => ready,
    show: ({ nodes_ready: ready }) => (ready === 0 ? <Pill tone="warn" text="none" /> : count(ready)),
  },
  {
    title: 'Context',
    number: true,
    by: contextOf,
    show: (model) => {
      const context = contextOf(model)
      return context === null ? nothing : count(context)
    },
  },
  {
    title: 'Price of a million tokens, in / out',
    number: true,
    show: (model) => (
      <>
        <Price wei={model.prompt_token_price_wei} /> / <Price wei={model.completion_token_price_wei} />
      </>
    ),
  },
]

const ModelTable = ({ models }: { models: readonly Model[] }) => (
  <LongTable
    label="Models"
    rows={models}
    keyOf={({ id }) => id}
    textOf={({ id, name, aliases }) => [id, name ?? '', ...aliases].join(' ')}
    columns={columns}
    first={{ title: 'Ready', falling: true }}
    actions={(model) => (
      <>
        <ActButton act={editModel(model)} on={model.id} label="Edit" />
        <ActMenu acts={model.in_catalogue ? [removeEntry(model)] : []} on={model.id} />
      </>
    )}
  />
)
