import type { Customer, Key, KeyList, PolicyPreview } from '../../protocol/wire/admin/accounts.ts'
import { count } from '../parts/format.ts'
import { callAdmin, readAdmin } from '../state/api.ts'
import type { Act, ActField, Editing, Says, SeenRow, Shown, Values, Verdict } from './act.ts'
import { actOn } from './action-acts.ts'
import { customerEditing, customerPlace } from './customer-acts.ts'
import {
  accountChanges,
  accountFields,
  keyChanges,
  keyFields,
  keySays,
  type NodeNames,
  nodesField,
  nodesText,
  nodesTyped,
} from './policy-fields.ts'
import { bothAllow, goesBeyond, reachChanges, reachText } from './reach.ts'

const reached = ({ models, nodes }: PolicyPreview['after']) =>
  `${count(models)} ${models === 1 ? 'model' : 'models'} on ${count(nodes)} ${nodes === 1 ? 'node' : 'nodes'}`
const named = (verb: string, models: readonly string[]) =>
  models.length === 0 ? '' : ` It ${verb} ${models.join(', ')}${models.length < 5 ? '' : ' and maybe others'}.`

/** What the gateway says that a change would come to. */
async function preview(who: string, asked: object, signal: AbortSignal): Promise<Verdict> {
  const answer = await callAdmin('/v1/admin/policy-preview', { method: 'POST', body: asked, signal })
  const { before, after, lost, gained } = (await answer.json()) as PolicyPreview
  const same = before !== null && before.models === after.models && before.nodes === after.nodes
  const says =
    before === null
      ? `${who} reaches ${reached(after)}.`
      : same && lost.length + gained.length === 0
        ? `${who} reaches ${reached(before)} now, and as many after the change.`
        : `${who} reaches ${reached(before)} now, and ${reached(after)} after the change.${named('loses', lost)}${named('gains', gained)}`
  return { good: after.models > 0 || before?.models === 0, says }
}

/** The whole policy of an account. */
export const setPolicy = (customer: Customer, names: NodeNames, begins = customer.gateway_policy): Act => {
  const changes = (values: Values) => accountChanges(customer.gateway_policy, values, names)
  return {
    actions: ['customer.update'],
    verb: 'Save',
    title: `Policy of ${customer.display_name}`,
    about: `What all keys of the account may do together. A key can have a policy of its own: the stricter of the two counts. ${bothAllow}`,
    fields: accountFields(begins, names),
    editing: customerEditing(customer, names),
    check: (values, signal) => {
      const asked = { customer_id: customer.customer_id, gateway_policy_changes: changes(values) }
      return preview('This account', asked, signal)
    },
    run: (values, send) => {
      const body = { gateway_policy_changes: changes(values) }
      return send({ action: 'customer.update', method: 'PATCH', path: customerPlace(customer), body })
    },
    done: `The policy of ${customer.display_name} is saved.`,
    undo: (after: Customer, _values, before) =>
      setPolicy(after, names, (before as SeenRow<Customer>).row.gateway_policy),
  }
}

type KeyMade = Key & { readonly gateway_key: string }
export const shownKey = ({ gateway_key }: KeyMade): readonly Shown[] => [{ label: 'Gateway key', text: gateway_key }]

const pad = (value: number) => String(value).padStart(2, '0')
/** As a field of a browser has it: in the time zone of the person. */
function momentText(iso: string | null): string {
  if (iso === null) return ''
  const at = new Date(iso)
  const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map(pad).join('-')
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}`
}
const momentTyped = (text: string | undefined) =>
  text === undefined || text === '' ? null : new Date(text).toISOString().replace('.000Z', 'Z')

const endsField = (iso: string | null): ActField => ({
  name: 'ends',
  label: 'Ends',
  hint: 'empty: never',
  kind: 'moment',
  value: momentText(iso),
})
const nameField = (value = ''): ActField => ({ name: 'name', label: 'Name', required: true, value })

/** A key that the account holds back is no fault, and not what its maker means. */
function held(values: Values, before: Key['model_policy'], customer: Customer): Verdict | null {
  const changes = Object.entries({ ...before, ...reachChanges(before, values) }).filter(([, value]) => value !== null)
  if (!goesBeyond(Object.fromEntries(changes), customer.gateway_policy)) return null
  const { display_name: name, gateway_policy: policy } = customer
  return { good: false, says: `The account allows ${reachText(policy)}. Change “Prompts may go to” of ${name}, too.` }
}

export const addKey = (customer: Customer, names: NodeNames): Act => {
  const rulesOf = (values: Values) => {
    const policy = keyChanges(null, values, names)
    const nodes = nodesTyped(values.nodes ?? '', names)
    return { policy, nodes }
  }
  return {
    actions: ['gateway_key.issue'],
    verb: 'Issue',
    title: `New key of ${customer.display_name}`,
    about: `Make one key per program or person, so you can revoke it without touching the others. ${bothAllow}`,
    fields: [nameField(), ...keyFields(null, names), nodesField(null, names), endsField(null)],
    check: async (values, signal) => {
      const { policy, nodes } = rulesOf(values)
      const asked = {
        customer_id: customer.customer_id,
        key_id: null,
        model_policy_changes: policy,
        node_scope: nodes,
      }
      return held(values, null, customer) ?? preview('The key', asked, signal)
    },
    run: (values, send) => {
      const { policy, nodes } = rulesOf(values)
      const ends = momentTyped(values.ends)
      const body = {
        name: (values.name ?? '').trim(),
        ...(Object.keys(policy).length === 0 ? {} : { model_policy: policy }),
        ...(nodes === null ? {} : { node_scope: nodes }),
        ...(ends === null ? {} : { expires_at: ends }),
      }
      return send({ action: 'gateway_key.issue', method: 'POST', path: `${customerPlace(customer)}/keys`, body })
    },
    shows: shownKey,
    done: 'The key is issued.',
    undo: (key: KeyMade) => actOn('gateway_key.revoke', key),
  }
}

const keyPlace = ({ key_id }: Pick<Key, 'key_id'>) => `/v1/admin/keys/${key_id}`

function keyEditing(customer: Customer, key: Key, names: NodeNames): Editing {
  const seenIn = (row: Key): SeenRow<Key> => {
    const says: Says = {
      Name: row.name,
      ...keySays(row.model_policy, names),
      Nodes: nodesText(row.node_scope, names),
      Ends: momentText(row.expires_at),
    }
    return { etag: row.etag, says, row }
  }
  return {
    seen: seenIn(key),
    read: async () => {
      const { keys } = await readAdmin<KeyList>(`${customerPlace(customer)}/keys?limit=1000`)
      return seenIn(keys.find(({ key_id }) => key_id === key.key_id) ?? key)
    },
  }
}

/** `begins`: what the form shows at first. */
export const editKey = (customer: Customer, key: Key, names: NodeNames, begins = key): Act => {
  const changes = (values: Values) => {
    const { name = '', nodes = '', ends = '' } = values
    const policy = keyChanges(key.model_policy, values, names)
    return {
      ...(name.trim() === key.name ? {} : { name: name.trim() }),
      ...(Object.keys(policy).length === 0 ? {} : { model_policy_changes: policy }),
      ...(nodes.trim() === nodesText(key.node_scope, names) ? {} : { node_scope: nodesTyped(nodes, names) }),
      ...(ends === momentText(key.expires_at) ? {} : { expires_at: momentTyped(ends) }),
    }
  }
  return {
    actions: ['gateway_key.update'],
    verb: 'Save',
    title: `The key ${key.name}`,
    about: `What programs with this key may do. Where the policy of the account is stricter, that one counts. ${bothAllow}`,
    fields: [
      nameField(begins.name),
      ...keyFields(begins.model_policy, names),
      nodesField(begins.node_scope, names),
      endsField(begins.expires_at),
    ],
    editing: keyEditing(customer, key, names),
    check: async (values, signal) => {
      const { model_policy_changes, node_scope } = changes(values)
      const asked = {
        customer_id: customer.customer_id,
        key_id: key.key_id,
        ...(model_policy_changes === undefined ? {} : { model_policy_changes }),
        ...(node_scope === undefined ? {} : { node_scope }),
      }
      return held(values, key.model_policy, customer) ?? preview('This key', asked, signal)
    },
    run: (values, send) =>
      send({ action: 'gateway_key.update', method: 'PATCH', path: keyPlace(key), body: changes(values) }),
    done: `The key ${key.name} is saved.`,
    undo: (after: Key, _values, before) => editKey(customer, after, names, (before as SeenRow<Key>).row),
  }
}
