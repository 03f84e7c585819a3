import { addressOf } from '../../state/place.ts'
import { mayAct } from '../../state/session.ts'

const filterNames = [
  'model',
  'node_id',
  'status',
  'code',
  'min_ttft_ms',
  'from',
  'to',
  'customer_id',
  'key_id',
] as const
/** A browser offers no more in a way that helps; any other name can be typed. */
const nodesOfferedMax = 200
type FilterName = (typeof filterNames)[number]
export type Filters = Readonly<Record<FilterName, string>>

export const readFilters = (query: URLSearchParams): Filters =>
  Object.fromEntries(filterNames.map((name) => [name, query.get(name) ?? ''])) as Filters

/** As `datetime-local` has it, in the reader's own time zone. */
function localOf(iso: string): string {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return ''
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
const isoOf = (local: string) => (local === '' ? '' : new Date(local).toISOString())

interface FieldProps {
  readonly name: FilterName
  readonly label: string
  readonly value: string
  readonly list?: string
  readonly kind?: 'text' | 'number' | 'datetime-local'
  readonly pattern?: string
}

const Field = ({ name, label, value, list, kind = 'text', pattern }: FieldProps) => (
  <div class="field">
    <label for={`filter-${name}`}>{label}</label>
    <input
      id={`filter-${name}`}
      name={name}
      type={kind}
      defaultValue={value}
      list={list}
      pattern={pattern}
      min={kind === 'number' ? 0 : undefined}
      autocomplete="off"
      spellcheck={false}
    />
  </div>
)

interface FormProps {
  readonly filters: Filters
  readonly nodes: ReadonlyMap<string, string>
}

/** What is asked for stands in the address: a filter is set by going there. */
export function RequestFilters({ filters, nodes }: FormProps) {
  const idOf = (given: string) => [...nodes].find(([, name]) => name === given)?.[0] ?? given
  const apply = (form: HTMLFormElement) => {
    const given = new FormData(form)
    const text = (name: FilterName) => String(given.get(name) ?? '').trim()
    const values = Object.fromEntries(filterNames.map((name) => [name, text(name)])) as Record<FilterName, string>
    values.node_id = idOf(values.node_id)
    values.from = isoOf(values.from)
    values.to = isoOf(values.to)
    location.hash = addressOf('requests', null, values)
  }
  return (
    <form
      class="filters"
      aria-label="Filters"
      onSubmit={(event) => {
        event.preventDefault()
        apply(event.currentTarget)
      }}
    >
      <Field name="model" label="Model" value={filters.model} />
      <Field name="node_id" label="Node" value={nodes.get(filters.node_id) ?? filters.node_id} list="filter-nodes" />
      <datalist id="filter-nodes">
        {[...nodes.values()].slice(0, nodesOfferedMax).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Field name="status" label="Status" value={filters.status} pattern="[1-5][0-9]{2}" />
      <Field name="code" label="Code" value={filters.code} pattern="[a-z][a-z0-9_]*" />
      <Field name="min_ttft_ms" label="First token after, ms" value={filters.min_ttft_ms} kind="number" />
      <Field name="from" label="From" value={localOf(filters.from)} kind="datetime-local" />
      <Field name="to" label="To" value={localOf(filters.to)} kind="datetime-local" />
      {mayAct('operator') && <Field name="customer_id" label="Customer" value={filters.customer_id} />}
      {mayAct('operator') && <Field name="key_id" label="Key" value={filters.key_id} />}
      <div class="filter-actions">
        <button type="submit">Filter</button>
        <a href="#requests">Clear</a>
      </div>
    </form>
  )
}
