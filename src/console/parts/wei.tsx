import { signal } from '@preact/signals'
import { inUnit, type Unit, units } from './format.ts'

/** The person's choice, for all views and until it is changed: it is no secret, and the next person may choose anew. */
const storageKey = 'penstock-console-unit'
const stored = localStorage.getItem(storageKey)
const isUnit = (text: string | null): text is Unit => text !== null && Object.hasOwn(units, text)
/** All amounts of the page are in it. */
export const unit = signal<Unit>(isUnit(stored) ? stored : 'ETH')

/** With its unit: `0.25 ETH`. */
export const amountText = (wei: string): string => `${inUnit(wei, unit.value)} ${unit.value}`

/** Whole wei in the title, a readable amount in the text. */
export const Wei = ({ wei }: { wei: string }) => <span title={`${wei} wei`}>{inUnit(wei, unit.value)}</span>

/** Chooses the unit of all amounts, once. */
export const UnitChoice = () => (
  <p class="unit">
    <label class="inline" for="unit">
      Amounts in
    </label>{' '}
    <select
      id="unit"
      value={unit.value}
      onChange={(event) => {
        unit.value = event.currentTarget.value as Unit
        localStorage.setItem(storageKey, unit.value)
      }}
    >
      {Object.keys(units).map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  </p>
)
