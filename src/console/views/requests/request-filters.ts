import { type FilterField, type FilterValues, rangeFields, readFilters } from '../../parts/filter-form.tsx'
import { mayAct } from '../../state/session.ts'

const plain: readonly FilterField[] = [
  { name: 'status', label: 'Status', pattern: '[1-5][0-9]{2}' },
  { name: 'code', label: 'Code', pattern: '[a-z][a-z0-9_]*' },
  { name: 'min_ttft_ms', label: 'First token after, ms', kind: 'number' },
  ...rangeFields,
]
const key: FilterField = { name: 'key_id', label: 'Key' }
const tag: FilterField = { name: 'tag', label: 'Tag' }
const ofOperators: readonly FilterField[] = [{ name: 'customer_id', label: 'Customer' }, key, tag]

/** A person knows the names, the address has the ids. */
const byName = (name: string, label: string, names: ReadonlyMap<string, string>): FilterField => ({
  name,
  label,
  offers: [...names.values()],
  shown: (id) => names.get(id) ?? id,
  meant: (text) => [...names].find(([, each]) => each === text)?.[0] ?? text,
})

/** `nodes` and `customers`: names by id. */
export const requestFields = (
  nodes: ReadonlyMap<string, string>,
  customers: ReadonlyMap<string, string>,
): readonly FilterField[] => [
  { name: 'model', label: 'Model' },
  byName('node_id', 'Node', nodes),
  ...plain,
  ...(mayAct('operator') ? [byName('customer_id', 'Customer', customers), key, tag] : []),
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
