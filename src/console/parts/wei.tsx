import { signal } from '@preact/signals'
import { type ComponentChildren, createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { inUnit, type Unit, units } from './format.ts'

/** The unit of each table, by its name; it lasts as long as the page. */
const chosen = signal<Readonly<Record<string, Unit>>>({})
const UnitOf = createContext<Unit>('ETH')

/** Whole wei in the title, a readable amount in the text. */
export function Wei({ wei }: { wei: string }) {
  const unit = useContext(UnitOf)
  return <span title={`${wei} wei`}>{inUnit(wei, unit)}</span>
}

/** All amounts below are in one unit, which stands above them and can be changed. */
export function Amounts({ table, children }: { table: string; children: ComponentChildren }) {
  const unit = chosen.value[table] ?? 'ETH'
  const id = `unit-${table}`
  return (
    <UnitOf.Provider value={unit}>
      <p class="unit">
        <label class="inline" for={id}>
          Amounts in
        </label>{' '}
        <select
          id={id}
          value={unit}
          onChange={(event) => {
            chosen.value = { ...chosen.value, [table]: event.currentTarget.value as Unit }
          }}
        >
          {Object.keys(units).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </p>
      {children}
    </UnitOf.Provider>
  )
}
