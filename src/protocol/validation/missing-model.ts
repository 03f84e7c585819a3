import { quoteValue } from '../../errors.ts'
import { nearest } from '../../nearest.ts'

/** Names that a misspelt one is compared with, and the characters of one: a pool may have more than is worth the work. */
export const namesComparedMax = 256
const nameLengthMax = 96
/** How much of a name may be misspelt. */
const changesShare = 0.34

/** A name as its model is called by people: without owner and tag, in lower case. */
const plain = (name: string) =>
  name
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(/:[^:]*$/, '')

function misspelt(name: string, known: readonly string[]): string | null {
  const lower = known.map((each) => each.toLowerCase())
  const meant = nearest(name.toLowerCase(), lower, Math.max(1, Math.floor(name.length * changesShare)))
  return meant === null ? null : (known[lower.indexOf(meant)] ?? null)
}

/** At most `namesComparedMax` of the names are taken. */
function compared(known: Iterable<string>): readonly string[] {
  const names: string[] = []
  for (const name of known) {
    if (names.length >= namesComparedMax) break
    if (name.length <= nameLengthMax) names.push(name)
  }
  return names
}

/**
 * What is said where no model has a name. `known`: the names that this caller may use, and no others; `list`: the path
 * that lists them. The name is repeated only where it is nearly one of them: a client may send a prompt in its place.
 */
export function noSuchModel(name: string, known: Iterable<string>, list = '/v1/models'): string {
  const lists = `GET ${list} lists what you can use.`
  if (name.length > nameLengthMax) return `No model has this name. ${lists}`
  const names = compared(known)
  const slip = misspelt(name, names)
  if (slip !== null) return `No model is called ${quoteValue(name)}. Did you mean ${slip}? ${lists}`
  const same = names.find((each) => plain(each) === plain(name))
  return `No model has this name. ${same === undefined ? '' : `Did you mean ${same}? `}${lists}`
}
