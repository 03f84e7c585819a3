import { type Act, act } from './act.ts'
import { ActMenu } from './act-menu.tsx'
import { actsOn, type Row } from './action-acts.ts'
import { mayDo } from './policy.ts'

interface Props {
  readonly act: Act
  /** What it is done to, for those who do not see the row. */
  readonly on?: string
  readonly kind?: 'quiet' | 'primary'
  readonly label?: string
  /** False while something is read that the form is made of, such as the names among which it lets choose. */
  readonly able?: boolean
}

/** Opens the form of an act; nothing for a role that may not do it. */
export function ActButton({ act: given, on, kind = 'quiet', label = given.verb, able = true }: Props) {
  if (!mayDo(...given.actions)) return null
  return (
    <button type="button" class={kind} disabled={!able} onClick={() => act(given)}>
      {label}
      {on !== undefined && <span class="visually-hidden"> {on}</span>}
    </button>
  )
}

interface ButtonsProps {
  readonly kind: string
  readonly row: Row
  readonly on: string
  /** For the menu, too. */
  readonly more?: readonly Act[]
}

/** A button for everything that can be done to a row of this kind; a menu for what destroys something. */
export function ActButtons({ kind, row, on, more = [] }: ButtonsProps) {
  const all = actsOn(kind, row)
  return (
    <>
      {all
        .filter(({ act: each }) => each.destroys !== true)
        .map(({ act: each, label }) => (
          <ActButton key={each.title} act={each} on={on} label={label} />
        ))}
      <ActMenu on={on} acts={[...all.flatMap(({ act: each }) => (each.destroys === true ? [each] : [])), ...more]} />
    </>
  )
}
