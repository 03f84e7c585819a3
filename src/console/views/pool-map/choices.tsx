import { addressOf } from '../../state/place.ts'
import { type Colour, colours, type Grouping, groupings } from './tiles.ts'

const forms = { table: 'Table', map: 'Map' } as const

/** How the nodes are shown, as the address says it. */
export interface Chosen {
  readonly form: keyof typeof forms
  readonly colour: Colour
  readonly group: Grouping
}

const oneOf = <T extends string>(of: Readonly<Record<T, string>>, value: string | null, usual: T): T =>
  value !== null && Object.hasOwn(of, value) ? (value as T) : usual

/** `id`: a node that the address names is opened in the table. `hasOwners`: without their names nothing is grouped by them. */
export function readMap(id: string | null, query: URLSearchParams, hasOwners: boolean): Chosen {
  const group = oneOf(groupings, query.get('group'), 'class')
  return {
    form: id === null ? oneOf(forms, query.get('form'), 'table') : 'table',
    colour: oneOf(colours, query.get('colour'), 'headroom'),
    group: hasOwners ? group : 'class',
  }
}

interface TabsProps<T extends string> {
  readonly label: string
  readonly of: Readonly<Record<T, string>>
  readonly value: T
  readonly address: (value: T) => string
}

function Tabs<T extends string>({ label, of, value, address }: TabsProps<T>) {
  return (
    <nav aria-label={label}>
      <span class="muted">{label}</span>
      <ul class="tabs">
        {(Object.entries(of) as [T, string][]).map(([each, name]) => (
          <li key={each}>
            <a href={address(each)} aria-current={each === value ? 'true' : undefined}>
              {name}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

/** Table or map, and what the map's colours and groups mean: each choice is an address. */
export function MapChoices({ chosen, hasOwners }: { chosen: Chosen; hasOwners: boolean }) {
  const to = (more: Partial<Chosen>) => {
    const { form, colour, group } = { ...chosen, ...more }
    return addressOf('pool', null, form === 'table' ? {} : { form, colour, group })
  }
  return (
    <>
      <Tabs label="Form" of={forms} value={chosen.form} address={(form) => to({ form })} />
      {chosen.form === 'map' && (
        <Tabs label="Colour" of={colours} value={chosen.colour} address={(colour) => to({ colour })} />
      )}
      {chosen.form === 'map' && hasOwners && (
        <Tabs label="Group" of={groupings} value={chosen.group} address={(group) => to({ group })} />
      )}
    </>
  )
}
