import { type FilterField, type FilterValues, rangeFields, readFilters, statusForm } from '../../parts/filter-form.tsx'
import type { Names } from '../../state/account-names.ts'
import { mayAct } from '../../state/session.ts'

const plain: readonly FilterField[] = [
  { name: 'status', label: 'Status', ...statusForm },
  {
    name: 'code',
    label: 'Code',
    pattern: '[a-z][a-z0-9_]*',
    form: 'Type a code as the list shows it, such as model_not_found.',
  },
  { name: 'min_ttft_ms', label: 'First token after, ms', kind: 'number' },
  ...rangeFields,
]
const tag: FilterField = { name: 'tag', label: 'Tag' }
const ofOperators: readonly FilterField[] = ['customer_id', 'key_id', 'tag'].map((name) => ({ name, label: '' }))

/** A person knows the names, the address has the ids. */
const byName = (name: string, label: string, names: Names): FilterField => ({
  name,
  label,
  offers: [...names.values()],
  shown: (id) => names.get(id) ?? id,
  meant: (text) => [...names].find(([, each]) => each === text)?.[0] ?? text,
})

interface Known {
  readonly models: readonly string[]
  /** Names by id. */
  readonly nodes: Names
  readonly customers: Names
  readonly keys: Names
}

export const requestFields = ({ models, nodes, customers, keys }: Known): readonly FilterField[] => [
  { name: 'model', label: 'Model', offers: models },
  byName('node_id', 'Node', nodes),
  ...plain,
  ...(mayAct('operator') ? [byName('customer_id', 'Customer', customers), byName('key_id', 'Key', keys), tag] : []),
]

/** Those of the tabs. */
export const outcomes = [
  ['', 'All'],
  ['failed', 'Failed'],
  ['4xx', '4xx'],
  ['5xx', '5xx'],
] as const
/** Also those that this role has no field for: an address is a filter. */
export const readRequestFilters = (query: URLSearchParams): FilterValues =>
  readFilters(
    [...['model', 'node_id', 'outcome'].map((name) => ({ name, label: '' })), ...plain, ...ofOperators],
    query,
  )
