import { nearest } from '../nearest.ts'
import { settings } from './table.ts'

/** Variables of the command line (`src/cli/frame/credentials.ts`), which a gateway in the same shell also sees. */
const ofCommandLine = [
  'SVC_BASE_URL',
  'SVC_ADMIN_TOKEN',
  'SVC_GATEWAY_KEY',
  'SVC_APPROVER_TOKEN',
  'SVC_CUSTOMER_ID',
  'SVC_CUSTOMER_TOKEN',
  'SVC_UPDATE_URL',
  'SVC_UPDATE_KEY',
]
const prefix = 'SVC_'
type Environment = Readonly<Record<string, string | undefined>>
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

const settingNames = Object.keys(settings).filter((setting) => setting.startsWith(prefix))

/** Who reads the environment: a gateway its settings, a command both. */
export type Reader = 'gateway' | 'command'
const namesOf: Readonly<Record<Reader, readonly string[]>> = {
  gateway: settingNames,
  command: [...ofCommandLine, ...settingNames],
}

function nearestOf(name: string, known: readonly string[]): string | null {
  const word = name.slice(prefix.length)
  const found = nearest(
    word,
    known.map((setting) => setting.slice(prefix.length)),
    Math.max(changesMin, word.length * changesShare),
  )
  return found === null ? null : prefix + found
}

/**
 * Variables of the environment that look like settings but are not: most are misspelt. Only names are
 * returned.
 */
export function unknownSettings(env: Environment, reader: Reader = 'gateway'): readonly UnknownSetting[] {
  return Object.keys(env)
    .filter((name) => name.toUpperCase().startsWith(prefix) && nameForm.test(name))
    .filter((name) => !(name in settings) && !ofCommandLine.includes(name))
    .sort()
    .slice(0, namesMax)
    .map((name) => ({ name, nearest: nearestOf(name.toUpperCase(), namesOf[reader]) }))
}

/** The same for a person, a sentence each. */
export const unknownInWords = (env: Environment, reader?: Reader): readonly string[] =>
  unknownSettings(env, reader).map(
    ({ name, nearest }) =>
      `${name} is no setting, so it does nothing. ${nearest === null ? 'docs/reference/settings.md lists them all.' : `Did you mean ${nearest}?`}`,
  )
