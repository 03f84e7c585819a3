import { jsonString } from './json-text.ts'

/** JSON as RFC 8785 (JCS) writes it: keys sorted by UTF-16 units, no white space, ECMAScript numbers. */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'string') return jsonString(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new RangeError('JCS has no such number')
    return String(value)
  }
  if (Array.isArray(value)) return listText(value)
  return typeof value === 'object' && value !== null ? objectText(value) : JSON.stringify(value)
}

/** Without closures and lists beside them: an answer may have a million numbers. */
function listText(items: readonly unknown[]): string {
  let text = ''
  for (const item of items) text += `,${canonicalJson(item === undefined ? null : item)}`
  return `[${text.slice(1)}]`
}

function objectText(value: object): string {
  let text = ''
  // By UTF-16 units, as JavaScript sorts.
  for (const key of Object.keys(value).sort()) {
    const item: unknown = (value as Readonly<Record<string, unknown>>)[key]
    if (item !== undefined) text += `,${jsonString(key)}:${canonicalJson(item)}`
  }
  return `{${text.slice(1)}}`
}
