import type { Customer, Key } from '../../protocol/wire/admin/accounts.ts'
import type { ActField, Choice, Says, Values } from './act.ts'
import { reachChanges, reachFields, reachSays } from './reach.ts'

type AccountPolicy = NonNullable<Customer['gateway_policy']>
type KeyPolicy = NonNullable<Key['model_policy']>
type Policy = Customer['gateway_policy'] | Key['model_policy']
/** The members that both have are of the same types. */
type Whole = Partial<AccountPolicy & KeyPolicy>
type Changes = Readonly<Record<string, unknown>>

/** The names of nodes, by their ids. */
export type NodeNames = ReadonlyMap<string, string>

/** One member of a policy as a person reads and types it. Nothing typed takes it away: the default stands. */
interface Part {
  readonly name: keyof Whole
  readonly label: string
  readonly hint: string
  readonly kind?: 'number' | 'choice'
  readonly min?: number
  readonly of?: readonly Choice[]
  readonly text: (policy: Whole, names: NodeNames) => string
  readonly read: (text: string, names: NodeNames) => unknown
}

const listed = (text: string) =>
  text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')
const someOf = (text: string) => (listed(text).length === 0 ? null : listed(text))
const numberIn = (text: string) => (text.trim() === '' ? null : Number(text))

const list = (name: 'allowed_models' | 'denied_models' | 'route_tiers', label: string, hint: string): Part => ({
  name,
  label,
  hint,
  text: (policy) => policy[name]?.join(', ') ?? '',
  read: someOf,
})
const number = (
  name: 'max_tokens_per_request' | 'rate_limit_rpm' | 'max_concurrency' | 'daily_token_quota' | 'priority',
  label: string,
  hint: string,
  min = 1,
): Part => ({ name, label, hint, kind: 'number', min, text: (policy) => String(policy[name] ?? ''), read: numberIn })

/** Ids of nodes by their names. A name that is unknown is sent as it is: the gateway knows ids that this page does not. */
export function nodesTyped(text: string, names: NodeNames): readonly string[] | null {
  const ids = new Map([...names].map(([id, name]) => [name, id]))
  const found = listed(text).map((each) => ids.get(each) ?? each)
  return found.length === 0 ? null : found
}
export const nodesText = (ids: readonly string[] | null | undefined, names: NodeNames): string =>
  ids?.map((id) => names.get(id) ?? id).join(', ') ?? ''

const nodeHint = 'with commas between; empty: all'
const rules: readonly Part[] = [
  list('allowed_models', 'Models', 'ids, or a beginning and *, with commas between; empty: all'),
  list('denied_models', 'Not these models', 'in the same way; a denial counts more'),
  list('route_tiers', 'Classes of nodes', 'with commas between; empty: all'),
  number('max_tokens_per_request', 'Tokens in an answer, at most', 'empty: no limit'),
  {
    name: 'mixture',
    label: 'Mixtures',
    hint: '',
    kind: 'choice',
    of: [
      { value: 'yes', label: 'allowed' },
      { value: 'no', label: 'refused' },
    ],
    text: ({ mixture }) => (mixture?.enabled === false ? 'no' : 'yes'),
    read: (text) => (text === 'no' ? { enabled: false, max_experts: 16 } : null),
  },
]
const accountParts: readonly Part[] = [
  ...rules,
  {
    name: 'node_scope',
    label: 'Nodes',
    hint: nodeHint,
    text: ({ node_scope: scope }, names) => nodesText(scope, names),
    read: nodesTyped,
  },
  number('rate_limit_rpm', 'Requests a minute', 'empty: no limit'),
  number('max_concurrency', 'Requests at the same time', 'empty: no limit'),
  number('daily_token_quota', 'Tokens a day', 'empty: no limit'),
]
const keyParts: readonly Part[] = [
  ...rules,
  number('priority', 'Priority', '0 to 9: of requests that wait, those with a higher one go first; 5 by default', 0),
]

const fieldsOf = (parts: readonly Part[], policy: Policy, names: NodeNames): readonly ActField[] => [
  ...reachFields(policy),
  ...parts.map(({ text, read: _, ...field }) => ({ ...field, value: text(policy ?? {}, names) })),
]
/** What the person has changed of what the form showed, and nothing else; null: the default. */
const changesOf = (parts: readonly Part[], policy: Policy, values: Values, names: NodeNames): Changes => ({
  ...reachChanges(policy, values),
  ...Object.fromEntries(
    parts.flatMap(({ name, text, read }) => {
      const typed = values[name] ?? ''
      return typed.trim() === text(policy ?? {}, names) ? [] : [[name, read(typed, names)]]
    }),
  ),
})
const saysOf = (parts: readonly Part[], policy: Policy, names: NodeNames): Says => ({
  ...reachSays(policy),
  ...Object.fromEntries(
    parts.map(({ label, of, text }) => {
      const value = text(policy ?? {}, names)
      return [label, of?.find((choice) => choice.value === value)?.label ?? value]
    }),
  ),
})

export const accountFields = (policy: Policy, names: NodeNames) => fieldsOf(accountParts, policy, names)
export const accountChanges = (policy: Policy, values: Values, names: NodeNames) =>
  changesOf(accountParts, policy, values, names)
export const accountSays = (policy: Policy, names: NodeNames = new Map()) => saysOf(accountParts, policy, names)
export const keyFields = (policy: Policy, names: NodeNames) => fieldsOf(keyParts, policy, names)
export const keyChanges = (policy: Policy, values: Values, names: NodeNames) =>
  changesOf(keyParts, policy, values, names)
export const keySays = (policy: Policy, names: NodeNames) => saysOf(keyParts, policy, names)

export const nodesField = (scope: readonly string[] | null, names: NodeNames): ActField => ({
  name: 'nodes',
  label: 'Nodes',
  hint: nodeHint,
  value: nodesText(scope, names),
})
