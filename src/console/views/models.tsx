import { useState } from 'preact/hooks'
import type { AdminModelList } from '../../protocol/wire/admin/admin.ts'
import { ActButton } from '../actions/act-button.tsx'
import { editModel, type Model, removeEntry } from '../actions/model-acts.ts'
import { count, nothing } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { inOrder, More, type Order, SearchField, SortHead, useNarrow } from '../parts/narrow.tsx'
import { Pill } from '../parts/small.tsx'
import { Empty, Part } from '../parts/states.tsx'
import { Wei } from '../parts/wei.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 30_000
const path = '/v1/admin/models?limit=10000'

/** What can be asked for, by which names and at which price. */
export function Models() {
  const [list, again] = useLoad<AdminModelList>(path, everyMs)
  return (
    <>
      <h1>Models</h1>
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

const values: Readonly<Record<string, (model: Model) => string | number | null>> = {
  model: ({ id }) => id,
  nodes: ({ nodes }) => nodes,
  ready: ({ nodes_ready }) => nodes_ready,
  context: ({ served_context_length, context_length }) => served_context_length ?? context_length,
}

function ModelTable({ models }: { models: readonly Model[] }) {
  const [order, setOrder] = useState<Order>({ by: 'ready', down: true })
  const sorted = inOrder(models, order.down, values[order.by] ?? (() => null))
  const narrow = useNarrow(sorted, ({ id, name, aliases }) => [id, name ?? '', ...aliases].join(' '))
  const head = { order, set: setOrder }
  return (
    <>
      <SearchField what="models" narrow={narrow} />
      <Frame label="Models">
        <table class="cards">
          <thead>
            <tr>
              <SortHead name="Model" by="model" {...head} />
              <th scope="col">Aliases</th>
              <SortHead name="Nodes" by="nodes" number {...head} />
              <SortHead name="Ready" by="ready" number {...head} />
              <SortHead name="Context" by="context" number {...head} />
              <th scope="col" class="number">
                Price in / out
              </th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {narrow.rows.map((model) => (
              <ModelRow key={model.id} model={model} />
            ))}
          </tbody>
        </table>
      </Frame>
      <More narrow={narrow} />
    </>
  )
}

const Price = ({ wei }: { wei: string | null }) => (wei === null ? <>free</> : <Wei wei={wei} />)

function ModelRow({ model }: { model: Model }) {
  const context = model.served_context_length ?? model.context_length
  return (
    <tr>
      <th scope="row">
        {model.id} {!model.in_catalogue && <span class="muted">no entry</span>}
      </th>
      <td data-label="Aliases">{model.aliases.length === 0 ? nothing : model.aliases.join(', ')}</td>
      <td data-label="Nodes" class="number">
        {count(model.nodes)}
      </td>
      <td data-label="Ready" class="number">
        {model.nodes_ready === 0 ? <Pill tone="warn" text="none" /> : count(model.nodes_ready)}
      </td>
      <td data-label="Context" class="number">
        {context === null ? nothing : count(context)}
      </td>
      <td data-label="Price in / out" class="number">
        <Price wei={model.prompt_token_price_wei} /> / <Price wei={model.completion_token_price_wei} />
      </td>
      <td class="actions">
        <ActButton act={editModel(model)} on={model.id} label="Edit" />
        {model.in_catalogue && <ActButton act={removeEntry(model)} on={model.id} />}
      </td>
    </tr>
  )
}
