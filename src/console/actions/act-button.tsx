import { type Act, act } from './act.ts'
import { actsOn, type Row } from './action-acts.ts'
import { mayDo } from './policy.ts'

interface Props {
  readonly act: Act
  /** What it is done to, for those who do not see the row. */
  readonly on?: string
  readonly kind?: 'quiet' | 'primary'
  readonly label?: string
}

/** Opens the form of an act; nothing for a role that may not do it. */
export function ActButton({ act: given, on, kind = 'quiet', label = given.verb }: Props) {
  if (!mayDo(...given.actions)) return null
  const grave = given.confirm !== undefined && kind === 'quiet'
  return (
    <button type="button" class={grave ? 'quiet danger-text' : kind} onClick={() => act(given)}>
      {label}
      {on !== undefined && <span class="visually-hidden"> {on}</span>}
    </button>
  )
}

/** A button for everything that can be done to a row of this kind. */
export const ActButtons = ({ kind, row, on }: { kind: string; row: Row; on: string }) => (
  <>
    {actsOn(kind, row).map(({ act: each, label }) => (
      <ActButton key={each.title} act={each} on={on} label={label} />
    ))}
  </>
)
