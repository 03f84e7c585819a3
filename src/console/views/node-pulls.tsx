import { pullFailureWords } from '../../actions/frame/pull-words.ts'
import type { Node } from '../../protocol/wire/admin/admin.ts'
import type { Pull, PullList } from '../../protocol/wire/nodes/pulls.ts'
import { ActButtons } from '../actions/act-button.tsx'
import { amount, nothing, percent } from '../parts/format.ts'
import { Failed } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'
import { mayAct } from '../state/session.ts'

const pullsEveryMs = 2_000
const bytesOfGb = 1_000_000_000
const gigabytes = (bytes: number) => `${amount(bytes / bytesOfGb)} GB`

/** In these an agent can be asked. */
const awake: readonly Node['state'][] = ['live', 'ready', 'draining', 'yielding']

function Progress({ pull: { model, bytes_done: done, bytes_total: total } }: { pull: Pull }) {
  if (total === null || total === 0) return <>{nothing}</>
  return (
    <span class="load">
      <meter min={0} max={total} value={done} aria-label={`${percent(done / total)} of ${model}`} />
      <span>
        {percent(done / total)} of {gigabytes(total)}
      </span>
    </span>
  )
}

function PullRow({ node, pull }: { node: Node; pull: Pull }) {
  return (
    <tr data-row={pull.pull_id}>
      <th scope="row">{pull.model}</th>
      <td data-label="From">{pull.ref}</td>
      <td data-label="State">
        {pull.state}
        {pull.failure !== null && <span class="muted"> {pullFailureWords(pull.failure)}</span>}
      </td>
      <td data-label="Fetched">
        <Progress pull={pull} />
      </td>
      <td data-label="Memory" class="number">
        {pull.memory_mb === null ? nothing : `${amount(pull.memory_mb)} MiB`}
      </td>
      <td class="actions">
        <ActButtons kind="pull" row={{ ...pull, node_id: node.node_id }} on={pull.model} />
      </td>
    </tr>
  )
}

/** The models that the agent of a node fetches, or has fetched since it started; nothing of other nodes. */
export function NodePulls({ node }: { node: Node }) {
  // A viewer's refusal would count as a denied call in the audit.
  const isAsked = node.kind === 'agent' && awake.includes(node.state) && mayAct('operator')
  const [list, again] = useLoad<PullList>(isAsked ? `/v1/admin/nodes/${node.node_id}/pulls` : null, pullsEveryMs)
  if (!isAsked) return null
  if (list.kind === 'failed') {
    return <Failed what="what its agent fetches" why={list.why} requestId={list.requestId} again={again} />
  }
  const pulls = list.kind === 'ready' ? list.data.pulls : []
  return (
    <section aria-label={`Fetched models of ${node.name}`}>
      <p class="actions">
        <ActButtons kind="agent" row={node} on={node.name} />
      </p>
      {pulls.length > 0 && (
        <table class="cards">
          <caption class="visually-hidden">Models that {node.name} fetches, the newest first</caption>
          <thead>
            <tr>
              <th scope="col">Fetched model</th>
              <th scope="col">From</th>
              <th scope="col">State</th>
              <th scope="col">Fetched</th>
              <th scope="col" class="number">
                Memory
              </th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {pulls.map((pull) => (
              <PullRow key={pull.pull_id} node={node} pull={pull} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}
