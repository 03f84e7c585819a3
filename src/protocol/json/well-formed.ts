/**
 * Whether every text of a JSON value is Unicode. Half of a surrogate pair has no UTF-8, so that RFC 8785 has no form for it: nothing
 * that is hashed or signed may hold one.
 */
export function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (Array.isArray(value)) return value.every(isWellFormed)
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([name, item]) => name.isWellFormed() && isWellFormed(item))
}

/** Whether the text of a JSON value may hold half of a pair, by its escapes. */
export const mayHoldHalves = (text: string): boolean => /\\u[dD][89a-fA-F]/.test(text)
