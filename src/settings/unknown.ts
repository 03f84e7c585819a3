import { nearest } from '../nearest.ts'
import { settings } from './table.ts'

/** What the command line reads (`src/cli/frame/credentials.ts`), and a gateway started from the same shell sees. */
const ofCommandLine = ['SVC_BASE_URL', 'SVC_ADMIN_TOKEN', 'SVC_GATEWAY_KEY', 'SVC_APPROVER_TOKEN']
const prefix = 'SVC_'
const namesMax = 20
/** A name can hold anything, and it stands in a log. */
const nameForm = /^[A-Z0-9_]{1,64}$/i
/** Changes of single letters up to which a name is taken for a misspelt one: two, or a part of its length. */
const changesMin = 2
const changesShare = 0.34

export interface UnknownSetting {
  readonly name: string
  /** The name that may have been meant; null: none is near. */
  readonly nearest: string | null
}

function nearestOf(name: string): string | null {
  const word = name.slice(prefix.length)
  const known = Object.keys(settings).filter((setting) => setting.startsWith(prefix))
  const found = nearest(
    word,
    known.map((setting) => setting.slice(prefix.length)),
    Math.max(changesMin, word.length * changesShare),
  )
  return found === null ? null : prefix + found
}

/** Variables of the environment that look like settings and are none: mostly slips. By name, never by value. */
export function unknownSettings(env: Readonly<Record<string, string | undefined>>): readonly UnknownSetting[] {
  return Object.keys(env)
    .filter((name) => name.toUpperCase().startsWith(prefix) && nameForm.test(name))
    .filter((name) => !(name in settings) && !ofCommandLine.includes(name))
    .sort()
    .slice(0, namesMax)
    .map((name) => ({ name, nearest: nearestOf(name.toUpperCase()) }))
}
