import type { Customer, Key } from '../../protocol/wire/admin/accounts.ts'
import { weiTyped } from '../parts/format.ts'
import { unit } from '../parts/wei.tsx'
import { readAdmin, whyOf } from '../state/api.ts'
import type { Act, ActField, Editing, Says, SeenRow, Values } from './act.ts'
import { accountSays, type NodeNames } from './policy-fields.ts'
import { bothAllow, reachChanges, reachFields, reachOf } from './reach.ts'

type Named = Pick<Customer, 'customer_id' | 'display_name'>
const dailyLabel = 'Tokens a day'

/** What can be edited of it. `names`: where nodes are named. */
export function customerEditing(customer: Customer, names?: NodeNames): Editing {
  const seenIn = (row: Customer): SeenRow<Customer> => {
    const says: Says = { Name: row.display_name, Status: row.account_status, ...accountSays(row.gateway_policy, names) }
    return { etag: row.etag, says, row }
  }
  return { seen: seenIn(customer), read: async () => seenIn(await readAdmin<Customer>(customerPlace(customer))) }
}
export const customerPlace = ({ customer_id }: Pick<Customer, 'customer_id'>) => `/v1/admin/customers/${customer_id}`

interface Made extends Customer {
  readonly customer_token: string
  readonly webhook_secret: string
}
type KeyMade = Key & { readonly gateway_key: string }

const dailyField: ActField = {
  name: 'daily',
  label: dailyLabel,
  kind: 'number',
  hint: 'optional: the account may use no more',
}
const limitOf = ({ daily = '' }: Values) => (daily === '' ? {} : { daily_token_quota: Number(daily) })

/** A policy that says nothing is left out: the default stands. */
const some = (name: string, policy: object) => (Object.keys(policy).length === 0 ? {} : { [name]: policy })

const setStatus = (customer: Customer, account_status: 'active' | 'suspended'): Act => {
  const active = account_status === 'active'
  return {
    actions: ['customer.update'],
    verb: active ? 'Activate' : 'Suspend',
    title: `${active ? 'Activate' : 'Suspend'} ${customer.display_name}`,
    ...(active ? {} : { destroys: true as const }),
    about: active ? 'The keys of this customer work again.' : 'No key of this customer works until it is active again.',
    editing: customerEditing(customer),
    run: (_, send) =>
      send({ action: 'customer.update', method: 'PATCH', path: customerPlace(customer), body: { account_status } }),
    done: `${customer.display_name} is ${account_status}.`,
    undo: (after: Customer) => setStatus(after, active ? 'suspended' : 'active'),
  }
}
export const suspend = (customer: Customer): Act => setStatus(customer, 'suspended')
export const activate = (customer: Customer): Act => setStatus(customer, 'active')

interface Added {
  readonly made: Made
  readonly key: KeyMade | { readonly refused: string }
}

/**
 * A customer with its first key, as a guest needs it: two calls, one form. The account stands when its key is refused:
 * its secrets are shown all the same, and no second one is asked for.
 */
export const addCustomer = (): Act => ({
  actions: ['customer.create', 'gateway_key.issue'],
  verb: 'Create',
  title: 'Add a customer',
  about: 'An account of its own, with a first key. What it uses is counted apart from all others.',
  fields: [{ name: 'name', label: 'Name', required: true }, dailyField, ...reachFields()],
  run: async (values, send) => {
    const { name = '' } = values
    const reach = reachOf(values)
    const policy = some('gateway_policy', { ...limitOf(values), ...reach })
    const body = { display_name: name.trim(), ...policy }
    const made = (await send({ action: 'customer.create', method: 'POST', path: '/v1/admin/customers', body })) as Made
    const path = `${customerPlace(made)}/keys`
    const first = { name: name.trim(), ...some('model_policy', reach) }
    const issue = send({ action: 'gateway_key.issue', method: 'POST', path, body: first })
    const key = await issue.catch((error: unknown) => ({ refused: whyOf(error) }))
    return { made, key }
  },
  shows: ({ made, key }: Added) => [
    ...('refused' in key ? [] : [{ label: 'Gateway key', text: key.gateway_key }]),
    { label: 'Customer token, for private jobs and billing', text: made.customer_token },
    { label: 'Webhook secret', text: made.webhook_secret },
  ],
  done: 'The customer is added.',
  lacks: ({ key }: Added) =>
    'refused' in key ? `It has no key yet: ${key.refused}. Issue one on the page of the customer.` : null,
  undo: ({ made }: Added) => suspend(made),
})

const limitIn = ({ gateway_policy: policy }: Customer) => String(policy?.daily_token_quota ?? '')

/** `begins`: what the form shows at first. Every other field of the policy stays as it is. */
export const setLimit = (customer: Customer, begins = limitIn(customer)): Act => {
  return {
    actions: ['customer.update'],
    verb: 'Set',
    title: `Daily limit of ${customer.display_name}`,
    about: 'Daily token limit for the whole account. Leave it empty for no limit.',
    fields: [{ ...dailyField, value: begins }],
    editing: customerEditing(customer),
    run: (values, send) => {
      const changed = (values.daily ?? '') !== limitIn(customer)
      const body = { gateway_policy_changes: changed ? { daily_token_quota: null, ...limitOf(values) } : {} }
      return send({ action: 'customer.update', method: 'PATCH', path: customerPlace(customer), body })
    },
    done: `The limit of ${customer.display_name} is set.`,
    undo: (after: Customer, _values, before) => ({
      ...setLimit(after, limitIn((before as SeenRow<Customer>).row)),
      title: `Put the limit of ${customer.display_name} back`,
    }),
  }
}

/** How far prompts of the account may go. `begins`: what the form shows at first. Every other field of the policy stays as it is. */
export const setReach = (customer: Customer, begins = customer.gateway_policy): Act => {
  return {
    actions: ['customer.update'],
    verb: 'Set',
    title: `Where prompts of ${customer.display_name} may go`,
    about: `${bothAllow} This sets the account; each key is set when it is issued.`,
    fields: reachFields(begins),
    editing: customerEditing(customer),
    run: (values, send) => {
      const body = { gateway_policy_changes: reachChanges(customer.gateway_policy, values) }
      return send({ action: 'customer.update', method: 'PATCH', path: customerPlace(customer), body })
    },
    done: `Where prompts of ${customer.display_name} may go is set.`,
    undo: (after: Customer, _values, before) => setReach(after, (before as SeenRow<Customer>).row.gateway_policy),
  }
}

/** So that a form that is sent twice changes the balance once. */
const newEntryId = () => `console-${Date.now()}-${Math.random().toString(36).slice(2)}`

const amountFields = (): readonly ActField[] => [
  { name: 'amount', label: 'Amount', hint: `in ${unit.value}`, pattern: '[0-9]+([.][0-9]+)?', required: true },
]
/** Throws where it is a part of a wei. */
function weiIn({ amount = '' }: Values): string {
  const wei = weiTyped(amount, unit.value)
  if (wei === null || wei === 0n) throw new Error('An amount is at least one wei, and has no part of one')
  return String(wei)
}

export const credit = (customer: Named, creditId = newEntryId()): Act => ({
  actions: ['customer.credit.create'],
  verb: 'Credit',
  title: `Credit ${customer.display_name}`,
  about: 'Adds to the balance. What is neither spent nor reserved can be taken back, by an entry of its own.',
  fields: amountFields(),
  confirm: customer.display_name,
  run: (values, send) => {
    const body = { credit_id: creditId, amount_wei: weiIn(values) }
    return send({ action: 'customer.credit.create', method: 'POST', path: `${customerPlace(customer)}/credits`, body })
  },
  done: `${customer.display_name} is credited.`,
})

export const deduct = (customer: Named, debitId = newEntryId()): Act => ({
  actions: ['customer.debit.create'],
  verb: 'Take credit back',
  title: `Take credit back from ${customer.display_name}`,
  destroys: true,
  about: 'Takes from the balance, at most what is available. What is reserved for requests that run stays.',
  fields: amountFields(),
  confirm: customer.display_name,
  run: (values, send) => {
    const body = { debit_id: debitId, amount_wei: weiIn(values) }
    return send({ action: 'customer.debit.create', method: 'POST', path: `${customerPlace(customer)}/debits`, body })
  },
  done: `Credit of ${customer.display_name} is taken back.`,
})
