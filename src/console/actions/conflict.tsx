import { nothing } from '../parts/format.ts'
import type { Act, ActField, Values } from './act.ts'
import type { Form } from './form.ts'

/** By its label, as a person reads it, what was typed into a field and is not what the form was opened with. */
function typedInto({ fields = [], editing }: Act, values: Values): ReadonlyMap<string, string> {
  const textOf = ({ name, of }: ActField) => {
    const value = values[name] ?? ''
    return of?.find((choice) => choice.value === value)?.label ?? value
  }
  const all = fields.map((field) => [field.label, textOf(field)] as const)
  return new Map(all.filter(([label, text]) => text !== (editing?.seen.says[label] ?? '')))
}

const shown = (text: string | undefined) => (text === undefined || text === '' ? nothing : text)

/**
 * Somebody has changed the row since this form was opened: what the person saw, what it is now, and what the person has made of it.
 * What the person has not changed is not sent either.
 */
export function ConflictTable({ act, form }: { act: Act; form: Form }) {
  const { conflict, values } = form
  if (conflict === null) return null
  const typed = typedInto(act, values)
  const { differences } = conflict
  return (
    <div class="conflict" role="alert">
      <p>
        <strong>Somebody has changed this since you opened the form.</strong>{' '}
        {differences.length === 0
          ? 'Nothing that is shown here is different.'
          : 'Nothing of yours is saved yet. Save what you have changed, or leave it as it is now.'}
      </p>
      {differences.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">Field</span>
              </th>
              <th scope="col">You saw</th>
              <th scope="col">It is now</th>
              {typed.size > 0 && <th scope="col">Yours</th>}
            </tr>
          </thead>
          <tbody>
            {differences.map(({ name, seen, now }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{shown(seen)}</td>
                <td>{shown(now)}</td>
                {typed.size > 0 && <td>{typed.has(name) ? shown(typed.get(name)) : 'not changed'}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  )
}
