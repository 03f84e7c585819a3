import { type FilterField, type FilterValues, rangeFields, readFilters } from '../../parts/filter-form.tsx'
import { mayAct } from '../../state/session.ts'

const plain: readonly FilterField[] = [
  { name: 'status', label: 'Status', pattern: '[1-5][0-9]{2}' },
  { name: 'code', label: 'Code', pattern: '[a-z][a-z0-9_]*' },
  { name: 'min_ttft_ms', label: 'First token after, ms', kind: 'number' },
  ...rangeFields,
]
const ofOperators: readonly FilterField[] = [
  { name: 'customer_id', label: 'Customer' },
  { name: 'key_id', label: 'Key' },
]

/** A browser offers no more in a way that helps; any other name can be typed. */
const nodesOfferedMax = 200

/** `nodes`: names by id, since a person knows the names. */
export const requestFields = (nodes: ReadonlyMap<string, string>): readonly FilterField[] => [
  { name: 'model', label: 'Model' },
  {
    name: 'node_id',
    label: 'Node',
    offers: [...nodes.values()].slice(0, nodesOfferedMax),
    shown: (id) => nodes.get(id) ?? id,
    meant: (text) => [...nodes].find(([, name]) => name === text)?.[0] ?? text,
  },
  ...plain,
  ...(mayAct('operator') ? ofOperators : []),
]

/** Also those that this role has no field for: an address is a filter. */
export const readRequestFilters = (query: URLSearchParams): FilterValues =>
  readFilters([{ name: 'model', label: '' }, { name: 'node_id', label: '' }, ...plain, ...ofOperators], query)
