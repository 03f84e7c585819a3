/** A JSON schema as the OpenAPI document shows it. */
export interface Schema {
  readonly type?: string | readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly pattern?: string
  readonly minItems?: number
}

/** One place of a body with a value that its schema does not take. */
export interface WrongBody {
  /** As `param` names it. */
  readonly field: string
  readonly value: unknown
  readonly body: unknown
}

/** Stands in every text that is sent, and may come back in none. */
export const secretText = 'the words of a prompt that nobody repeats'
const byType: Readonly<Record<string, unknown>> = {
  object: { [secretText]: 1 },
  array: [[secretText]],
  string: secretText,
  number: -1.5,
  boolean: true,
  null: null,
}

const branches = (schema: Schema): readonly Schema[] => schema.anyOf?.flatMap(branches) ?? [schema]

function typesOf(schema: Schema): readonly string[] {
  return branches(schema).flatMap(({ type, const: constant, enum: values }) => {
    const types = [type ?? []].flat()
    if (types.length > 0) return types.map((name) => (name === 'integer' ? 'number' : name))
    return [constant, ...(values ?? [])].filter((value) => value !== undefined).map((value) => typeof value)
  })
}

/** Values that no branch of the schema takes: of other types, and out of its bounds. */
export function wrongValues(schema: Schema): readonly unknown[] {
  const types = typesOf(schema)
  if (types.length === 0) return []
  const others = Object.keys(byType).filter((type) => !types.includes(type))
  const all = branches(schema)
  const numbers = all.filter(({ type }) => type === 'integer' || type === 'number')
  const texts = all.filter(({ type }) => type === 'string' || [type].flat().includes('string'))
  const isWords = texts.length > 0 && texts.every((each) => each.enum !== undefined || each.const !== undefined)
  const isFormed = texts.length > 0 && texts.every(({ pattern }) => pattern !== undefined)
  return [
    ...others.map((type) => byType[type]),
    ...(numbers.length === 1 && numbers[0]?.minimum !== undefined ? [numbers[0].minimum - 1] : []),
    ...(numbers.length === 1 && numbers[0]?.maximum !== undefined ? [numbers[0].maximum + 1] : []),
    ...(isWords ? [secretText, 'robot'] : []),
    ...(isFormed ? [`${secretText}\u0001`] : []),
  ]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `sample`: a body that is in order, in which one place after the other is spoilt. */
export function* wrongBodies(
  schema: Schema,
  sample: unknown,
  make: (schema: Schema) => unknown,
  field = '',
  put: (value: unknown) => unknown = (value) => value,
): Generator<WrongBody> {
  const least = ({ properties = {}, required = [] }: Schema) =>
    Object.fromEntries(required.map((name) => [name, make(properties[name] ?? {})]))
  for (const value of wrongValues(schema)) yield { field, value, body: put(value) }
  for (const branch of branches(schema)) {
    if (branch.properties !== undefined) {
      const base = isObject(sample) ? sample : least(branch)
      for (const [name, property] of Object.entries(branch.properties)) {
        const place = field === '' ? name : `${field}.${name}`
        const inside = (value: unknown) => put({ ...base, [name]: value })
        yield* wrongBodies(property, base[name], make, place, inside)
      }
    }
    if (branch.items !== undefined) {
      const [first] = Array.isArray(sample) ? sample : []
      yield* wrongBodies(branch.items, first, make, `${field}[0]`, (value) => put([value]))
    }
  }
}
