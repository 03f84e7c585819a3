import type { Node } from '../../protocol/wire/admin/admin.ts'
import { amount, duration, nothing, percent } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { memoryOf, modelsOf, type NodeModel } from '../parts/node-facts.ts'

const count = (value: number | null) => value?.toLocaleString('en') ?? nothing
const rate = (value: number | null) => (value === null ? nothing : amount(value))

type Runtime = Node['runtimes'][number]
const columns: readonly (readonly [string, (model: NodeModel, runtime: Runtime, nowMs: number) => string])[] = [
  ['Context', (model) => count(model.context_length)],
  ['Memory', (model, _, nowMs) => memoryOf(model, nowMs)],
  ['In flight', (model) => String(model.in_flight)],
  ['Queue', (_, runtime) => count(runtime.queue_depth)],
  ['Unread', (model) => (model.backlog_ms === 0 ? nothing : duration(model.backlog_ms))],
  ['In its cache', (model) => (model.cache_match === null ? nothing : percent(model.cache_match))],
  ['First token', (model) => duration(model.ttft_ewma_ms)],
  ['Reads tokens/s', (model) => rate(model.prompt_tokens_per_second)],
  ['Tokens/s', (model) => rate(model.tokens_per_second)],
]

function ejection({ ejected_until, times_ejected }: NodeModel, nowMs: number): string {
  const until = ejected_until === null ? 0 : Date.parse(ejected_until)
  return until > nowMs ? `for ${duration(until - nowMs)} more` : `${times_ejected} times so far`
}

/** What a node has of its models in memory, what waits there, and what was learnt of its speed. */
export function NodeModels({ node, nowMs }: { node: Node; nowMs: number }) {
  if (modelsOf(node).length === 0) return null
  return (
    <Frame label={`Models of ${node.name}`} kind="inner">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            <th scope="col">Ready</th>
            {columns.map(([name]) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
            <th scope="col">Ejected</th>
          </tr>
        </thead>
        <tbody>
          {node.runtimes.flatMap((runtime) =>
            runtime.models.map((model) => (
              <tr key={model.model_profile_id}>
                <th scope="row">{model.model}</th>
                <td>{model.ready ? 'yes' : 'no'}</td>
                {columns.map(([name, text]) => (
                  <td key={name} class="number">
                    {text(model, runtime, nowMs)}
                  </td>
                ))}
                <td>{ejection(model, nowMs)}</td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </Frame>
  )
}
