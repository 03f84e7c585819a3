import { useState } from 'preact/hooks'
import type { Customer, KeyList } from '../../../protocol/wire/admin/accounts.ts'
import type { Node } from '../../../protocol/wire/admin/admin.ts'
import type { FailureCluster } from '../../../protocol/wire/admin/failures.ts'
import { type Act, act } from '../../actions/act.ts'
import { actOn } from '../../actions/action-acts.ts'
import { credit, customerPlace } from '../../actions/customer-acts.ts'
import { nodePlace } from '../../actions/node-acts.ts'
import { mayDo } from '../../actions/policy.ts'
import { editKey, setPolicy } from '../../actions/policy-acts.ts'
import type { NodeNames } from '../../actions/policy-fields.ts'
import { Alert } from '../../parts/states.tsx'
import { readAdmin, whyOf } from '../../state/api.ts'
import { namesToCome } from '../../state/node-names.ts'

/** What takes the cause away. What it is done to is read when somebody asks: the form begins with what holds now. */
interface Mend {
  readonly label: string
  readonly action: string
  readonly open: () => Promise<Act>
}

/** The policy of the account or of the key refused them. */
const ofPolicy: readonly string[] = [
  'model_not_allowed',
  'mixture_not_allowed',
  'privacy_class_not_allowed',
  'own_nodes_only',
  'sealed_only',
  'rate_limited',
  'concurrency_limited',
  'daily_token_quota_exceeded',
]
const ofBalance: readonly string[] = ['insufficient_funds']
const ofNodes: readonly string[] = ['upstream_error', 'upstream_timeout', 'node_unavailable']

const customerOf = (id: string) => readAdmin<Customer>(customerPlace({ customer_id: id }))

/** A key is found among those of the accounts that had the failures. */
async function keyAct(keyId: string, customers: readonly string[], names: NodeNames): Promise<Act> {
  for (const id of customers) {
    const { keys } = await readAdmin<KeyList>(`${customerPlace({ customer_id: id })}/keys`)
    const key = keys.find((each) => each.key_id === keyId)
    if (key !== undefined) return editKey(await customerOf(id), key, names)
  }
  throw new Error('no account has the key')
}

function mendsOf({ code, customers, keys, nodes }: FailureCluster, names: NodeNames): readonly Mend[] {
  const [customer, key, node] = [customers[0]?.name, keys[0]?.name, nodes[0]?.name]
  const found: Mend[] = []
  if (customer !== undefined && ofPolicy.includes(code)) {
    const open = async () => setPolicy(await customerOf(customer), names)
    found.push({ label: "Change the account's policy", action: 'customer.update', open })
    if (key !== undefined) {
      const ids = customers.map(({ name }) => name)
      found.push({
        label: "Change the key's policy",
        action: 'gateway_key.update',
        open: () => keyAct(key, ids, names),
      })
    }
  }
  if (customer !== undefined && ofBalance.includes(code)) {
    const open = async () => credit(await customerOf(customer))
    found.push({ label: 'Credit the account', action: 'customer.credit.create', open })
  }
  if (node !== undefined && ofNodes.includes(code)) {
    const open = async () => actOn('node.drain', { ...(await readAdmin<Node>(nodePlace(node))) })
    found.push({ label: `Drain ${names.get(node) ?? node}`, action: 'node.drain', open })
  }
  return found.filter(({ action }) => mayDo(action))
}

/** What mends a cause, at a click: its form says what will come of it before it is done. */
export function Mends({ cluster, names }: { cluster: FailureCluster; names: NodeNames }) {
  const [why, setWhy] = useState<string | null>(null)
  const mends = mendsOf(cluster, names)
  if (mends.length === 0) return null
  return (
    <>
      <p class="acts">
        {mends.map(({ label, open }) => (
          <button
            key={label}
            type="button"
            class="quiet"
            disabled={names === namesToCome}
            onClick={() => {
              setWhy(null)
              open().then(act, (error: unknown) => setWhy(`The form cannot be opened: ${whyOf(error)}.`))
            }}
          >
            {label}
            <span class="visually-hidden">, for {cluster.title}</span>
          </button>
        ))}
      </p>
      {why !== null && <Alert>{why}</Alert>}
    </>
  )
}
