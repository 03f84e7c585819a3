import { nearest } from '../nearest.ts'
import { settings } from './table.ts'

/** Variables of the command line (`src/cli/frame/credentials.ts`), which a gateway in the same shell also sees. */
const ofCommandLine = ['SVC_BASE_URL', 'SVC_ADMIN_TOKEN', 'SVC_GATEWAY_KEY', 'SVC_APPROVER_TOKEN']
const prefix = 'SVC_'
const namesMax = 20
/** The form of names that may be logged, because a name could contain anything. */
const nameForm = /^[A-Z0-9_]{1,64}$/i
/** How many letters of a misspelt name may differ: at least two, or this share of its length. */
const changesMin = 2
const changesShare = 0.34

export interface UnknownSetting {
  readonly name: string
  /** The name that was probably meant, or null. */
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

/**
 * Variables of the environment that look like settings and are none, which are mostly misspelt. Only names are
 * returned.
 */
export function unknownSettings(env: Readonly<Record<string, string | undefined>>): readonly UnknownSetting[] {
  return Object.keys(env)
    .filter((name) => name.toUpperCase().startsWith(prefix) && nameForm.test(name))
    .filter((name) => !(name in settings) && !ofCommandLine.includes(name))
    .sort()
    .slice(0, namesMax)
    .map((name) => ({ name, nearest: nearestOf(name.toUpperCase()) }))
}
