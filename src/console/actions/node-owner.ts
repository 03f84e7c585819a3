import type { Node } from '../../protocol/wire/admin/admin.ts'
import type { Names } from '../state/account-names.ts'
import { readAdmin } from '../state/api.ts'
import type { Act, SeenRow } from './act.ts'
import { nodePlace, owner } from './node-acts.ts'

/** An agent has joined for its owner, and a node that gets work keeps the owner for whom it does it. */
export const mayPass = ({ kind, admin_state: state }: Node) => kind === 'runtime' && state === 'draining'

export function changeOwner(node: Node, customers: Names): Act {
  const seenIn = (row: Node): SeenRow<Node> => {
    const id = row.customer_id ?? ''
    return { etag: row.etag, says: { Owner: customers.get(id) ?? id, Address: row.url ?? '' }, row }
  }
  const others = [...customers].filter(([id]) => id !== node.customer_id)
  return {
    actions: ['node.owner.change'],
    verb: 'Change owner',
    title: `Change the owner of ${node.name}`,
    about:
      'All private work of the new owner may then go to this server, and none of the old owner’s. The node becomes private, and its API key and payout address are removed. Resume gives it work again.',
    destroys: true,
    confirm: node.name,
    // The form starts without a choice, because the first customer of the list is hardly ever the new owner.
    fields: [
      {
        ...owner([{ value: '', label: 'choose' }, ...others.map(([value, label]) => ({ value, label }))]),
        required: true,
      },
    ],
    editing: { seen: seenIn(node), read: async () => seenIn(await readAdmin<Node>(nodePlace(node.node_id))) },
    run: ({ customer_id }, send) =>
      send({
        action: 'node.owner.change',
        method: 'POST',
        path: `${nodePlace(node.node_id)}/owner`,
        body: { customer_id },
      }),
    done: `${node.name} has another owner, and gets no work before it is resumed.`,
  }
}
