const namesMax = 8
/**
 * The form of every parameter's name. A text with another form, such as a misplaced token, is counted and not
 * repeated.
 */
const nameForm = /^[a-z][a-z0-9_]{0,31}$/

/**
 * The header that names the query parameters that a route does not read; null if it reads all. Without it a misspelt
 * parameter would go unnoticed, because unknown ones are ignored (§1, §27). 299 is "miscellaneous, persistent", as
 * Kubernetes warns of unknown fields.
 */
export function unknownParameters(url: string, known: ReadonlySet<string>): string | null {
  const cut = url.indexOf('?')
  if (cut === -1) return null
  const unknown = [...new Set(new URLSearchParams(url.slice(cut + 1)).keys())].filter((name) => !known.has(name))
  if (unknown.length === 0) return null
  const named = unknown.filter((name) => nameForm.test(name)).slice(0, namesMax)
  const more = unknown.length - named.length
  const names = [...named, ...(more > 0 ? [`${more} more`] : [])]
  return `299 - "unknown query parameter: ${names.join(', ')}"`
}
