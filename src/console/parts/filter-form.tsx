import { useState } from 'preact/hooks'
import { addressOf } from '../state/place.ts'

export interface FilterField {
  readonly name: string
  readonly label: string
  readonly kind?: 'text' | 'number' | 'datetime-local'
  readonly pattern?: string
  /** What fits the pattern, in a sentence: a browser says it where the typed text does not. */
  readonly form?: string
  /** Words that are offered while somebody types. */
  readonly offers?: readonly string[]
  /** What stands in the address, as a person reads it, and back. */
  readonly shown?: (value: string) => string
  readonly meant?: (text: string) => string
}

export type FilterValues = Readonly<Record<string, string>>

/** As `datetime-local` has it, in the reader's own time zone. */
function localOf(iso: string): string {
  const at = new Date(iso)
  if (iso === '' || Number.isNaN(at.getTime())) return ''
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
/** A browser shows fewer at once; typing some letters of a name brings it among them. */
const offersMax = 40
const isoOf = (local: string) => (local === '' ? '' : new Date(local).toISOString())

const moment = { kind: 'datetime-local', shown: localOf, meant: isoOf } as const
export const statusForm = { pattern: '[1-5][0-9]{2}', form: 'Type a status of three digits, such as 403.' } as const
/** From when to when; every list has both. */
export const rangeFields: readonly FilterField[] = [
  { name: 'from', label: 'From', ...moment },
  { name: 'to', label: 'To', ...moment },
]

export const readFilters = (fields: readonly FilterField[], query: URLSearchParams): FilterValues =>
  Object.fromEntries(fields.map(({ name }) => [name, query.get(name) ?? '']))

function Field({ field, value }: { field: FilterField; value: string }) {
  const { name, label, kind = 'text', pattern, form, offers, shown } = field
  const id = `filter-${name}`
  const [typed, setTyped] = useState('')
  const fitting = offers?.filter((offer) => offer.toLowerCase().includes(typed.toLowerCase()))
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        name={name}
        type={kind}
        defaultValue={shown === undefined ? value : shown(value)}
        list={offers === undefined ? undefined : `${id}-offers`}
        pattern={pattern}
        onInvalid={(event) => form !== undefined && event.currentTarget.setCustomValidity(form)}
        onInput={({ currentTarget }) => {
          currentTarget.setCustomValidity('')
          setTyped(currentTarget.value.trim())
        }}
        min={kind === 'number' ? 0 : undefined}
        autocomplete="off"
        spellcheck={false}
      />
      {fitting !== undefined && (
        <datalist id={`${id}-offers`}>
          {fitting.slice(0, offersMax).map((offer) => (
            <option key={offer} value={offer} />
          ))}
        </datalist>
      )}
    </div>
  )
}

interface FormProps {
  readonly view: string
  readonly id?: string | null
  readonly fields: readonly FilterField[]
  readonly values: FilterValues
  /** What stays in the address beside the fields. */
  readonly kept?: FilterValues
  /** What is typed can be read: the names that may stand in it are known. */
  readonly able?: boolean
}

/** What is asked for stands in the address: a filter is set by going there. */
export function FilterForm({ view, id = null, fields, values, kept = {}, able = true }: FormProps) {
  const apply = (form: HTMLFormElement) => {
    const given = new FormData(form)
    const read = ({ name, meant = (text: string) => text }: FilterField) =>
      [name, meant(String(given.get(name) ?? '').trim())] as const
    location.hash = addressOf(view, id, { ...kept, ...Object.fromEntries(fields.map(read)) })
  }
  const [open, setOpen] = useState(false)
  const set = fields.filter(({ name }) => (values[name] ?? '') !== '').length
  return (
    <>
      {/* A phone has room for the list or for the fields: its style alone shows this button. */}
      <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {set === 0 ? 'Filters' : `Filters (${set} set)`}
      </button>
      <form
        class={open ? 'filters' : 'filters folded'}
        aria-label="Filters"
        onSubmit={(event) => {
          event.preventDefault()
          apply(event.currentTarget)
        }}
      >
        {fields.map((field) => (
          <Field key={field.name} field={field} value={values[field.name] ?? ''} />
        ))}
        <div class="filter-actions">
          <button type="submit" disabled={!able}>
            Filter
          </button>
          <a href={addressOf(view, id)}>Clear</a>
        </div>
      </form>
    </>
  )
}
