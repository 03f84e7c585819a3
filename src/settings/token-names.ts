import { looksLike, nameCharactersMax, namePattern, nameWords } from '../person-names.ts'

const entryForm = /^(.+)=sha256:([0-9a-fA-F]{64})$/
const nameForm = new RegExp(namePattern)

/** SVC_TOKEN_NAMES: the name by the SHA-256 of the token, in hex of lower case. What is no entry is a fault of the settings. */
export function tokenNames(entries: readonly string[]): ReadonlyMap<string, string> {
  const named = entries.flatMap((entry) => {
    const [, name, digest] = entryForm.exec(entry) ?? []
    return name === undefined || digest === undefined ? [] : [[digest.toLowerCase(), name] as const]
  })
  return new Map(named)
}

export function tokenNameFaults(entries: readonly string[]): string[] {
  const names = entries.map((entry) => entryForm.exec(entry)?.[1])
  if (names.includes(undefined))
    return ['SVC_TOKEN_NAMES must be a list like NAME=sha256:HEX, with the SHA-256 of a token']
  const all = names.filter((name) => name !== undefined)
  if (all.some((name) => name.length > nameCharactersMax || !nameForm.test(name))) {
    return [`Each name of SVC_TOKEN_NAMES must be ${nameWords}`]
  }
  const isTwice = all.some((name, at) => all.slice(0, at).some((other) => looksLike(name, other)))
  const digests = tokenNames(entries)
  return isTwice || digests.size < all.length
    ? ['SVC_TOKEN_NAMES gives names or tokens twice, or names that look alike']
    : []
}
