import type { FailureCluster } from '../../../protocol/wire/admin/failures.ts'
import { ago, count, nothing, shortTime } from '../../parts/format.ts'
import { Pill, useNow } from '../../parts/small.tsx'
import type { Names } from '../../state/account-names.ts'
import { addressOf } from '../../state/place.ts'
import { toneOf } from '../requests/request-list.tsx'
import { Mends } from './mends.tsx'

interface Props {
  readonly cluster: FailureCluster
  /** Where what was read begins, RFC 3339. */
  readonly from: string
  /** By id. */
  readonly nodes: Names
  readonly customers: Names
  readonly keys: Names
}

const nameIn = (names: Names) => (id: string) => names.get(id) ?? id
const several = (number: number, one: string) => `${count(number)} ${one}${number === 1 ? '' : 's'}`

/** The names with the most requests, and how many there are beside them. */
function named(shares: FailureCluster['models'], all: number, nameOf = (name: string) => name): string {
  if (shares.length === 0) return nothing
  const more = all - shares.length
  return `${shares.map(({ name }) => nameOf(name)).join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`
}

/** One cause: what it is, whom it concerns since when, and the way to its requests. */
export function FailureRow({ cluster, from, nodes, customers, keys }: Props) {
  const { code, status, help_url: help } = cluster
  const now = useNow()
  return (
    <li class="cause">
      <p>
        <Pill tone={status < 400 ? 'bad' : toneOf(status)} text={String(status)} /> <strong>{cluster.title}</strong>{' '}
        <code>{code}</code>
      </p>
      <p>
        {several(cluster.requests, 'request')} of {several(cluster.customer_count, 'customer')}, since{' '}
        {shortTime(cluster.first_at)}, the last {ago(cluster.last_at, now)}.
      </p>
      <dl class="facts">
        <div>
          <dt>Models</dt>
          <dd>{named(cluster.models, cluster.model_count)}</dd>
        </div>
        <div>
          <dt>Nodes</dt>
          <dd>
            {cluster.node_count === 0 ? 'no node was called' : named(cluster.nodes, cluster.node_count, nameIn(nodes))}
          </dd>
        </div>
        {cluster.customers.length > 0 && (
          <div>
            <dt>Customers</dt>
            <dd>{named(cluster.customers, cluster.customer_count, nameIn(customers))}</dd>
          </div>
        )}
        {cluster.keys.length > 0 && (
          <div>
            <dt>Keys</dt>
            <dd>{named(cluster.keys, cluster.key_count, nameIn(keys))}</dd>
          </div>
        )}
      </dl>
      <p class="links">
        <a href={addressOf('requests', null, { code, status: String(status), from })}>Show the requests</a>
        <a href={addressOf('requests', cluster.request_id)}>The newest</a>
        {help !== null && (
          <a href={help} target="_blank" rel="noreferrer">
            What it means, and what helps
          </a>
        )}
      </p>
      <Mends cluster={cluster} names={nodes} />
    </li>
  )
}
