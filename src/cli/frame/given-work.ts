import {
  kindsIn,
  type Modality,
  NoKindOfWork,
  type ServedWork,
  servedIn,
} from '../../protocol/wire/nodes/kinds-of-work.ts'
import { UsageFault } from './failure.ts'

/** What takes a declaration back. */
const nothing = 'none'

function orUsage<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof NoKindOfWork ? new UsageFault(`--serves: ${error.message}`) : error
  }
}

/** The values of `--serves` of a node; undefined: the option was not given, null: it takes all declarations back. */
export function servesGiven(lines: readonly string[]): ServedWork | null | undefined {
  if (lines.length === 0) return undefined
  return lines.includes(nothing) ? null : orUsage(() => servedIn(lines))
}

/** The value of `--serves` of a catalogue entry, likewise. */
export function kindsGiven(text: string | undefined): readonly Modality[] | null | undefined {
  if (text === undefined) return undefined
  return text === nothing ? null : orUsage(() => kindsIn(text))
}
