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

/** Letters to change, add or drop to make one of the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same))
    }
    row = next
  }
  return row[other.length] ?? 0
}

function nearestOf(name: string): string | null {
  const near = Object.keys(settings)
    .filter((known) => known.startsWith(prefix))
    .map((known) => ({ known, changes: distance(name.slice(prefix.length), known.slice(prefix.length)) }))
    .sort((one, other) => one.changes - other.changes)[0]
  const changesMax = Math.max(changesMin, (name.length - prefix.length) * changesShare)
  return near !== undefined && near.changes <= changesMax ? near.known : null
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
