import { type TSchema, TypeGuard } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** What a later version says in the place of a word or of an object that this one cannot read. */
const unreadable = Symbol('unreadable')

/** A word of a list that later versions may have more words for. */
const isWords = (schema: TSchema): boolean => (TypeGuard.IsUnion(schema) ? schema.anyOf.every(isWord) : isWord(schema))
const isWord = (schema: TSchema): boolean => TypeGuard.IsLiteral(schema) && typeof schema.const === 'string'

function readObject(
  properties: Readonly<Record<string, TSchema>>,
  value: object,
  whole: ReadonlySet<TSchema>,
): unknown {
  const known: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name)) continue
    const read = readAs(schema, (value as Record<string, unknown>)[name], whole)
    if (read !== unreadable) known[name] = read
    else if (!TypeGuard.IsOptional(schema)) return unreadable
  }
  return known
}

function readAs(schema: TSchema, value: unknown, whole: ReadonlySet<TSchema>): unknown {
  if (whole.has(schema)) return Value.Check(schema, value) ? value : unreadable
  if (isWords(schema)) return typeof value === 'string' && !Value.Check(schema, value) ? unreadable : value
  if (TypeGuard.IsArray(schema) && Array.isArray(value))
    return value.map((one) => readAs(schema.items, one, whole)).filter((one) => one !== unreadable)
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return TypeGuard.IsObject(schema) && isObject ? readObject(schema.properties, value, whole) : value
}

/**
 * A message without what only a later version knows: members that the schema does not name, and words that its lists do not have. Such a word
 * takes its member along, or the element of a list whose member must be there. What is known keeps its form, so the result
 * is still to be checked. `whole`: signed as they are, so an element of another form is left out. undefined: nothing is left.
 */
export function withoutNewerMembers(schema: TSchema, value: unknown, whole: ReadonlySet<TSchema>): unknown {
  const read = readAs(schema, value, whole)
  return read === unreadable ? undefined : read
}
