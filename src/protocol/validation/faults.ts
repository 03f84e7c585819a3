import { OptionalKind, type TSchema } from '@sinclair/typebox'
import { fits } from './fits.ts'

/** One place where a value differs from its schema. */
export interface Fault {
  /** RFC 6901. */
  readonly pointer: string
  /** As clients match them in `errors[].code`. */
  readonly code: 'required' | 'unknown_field' | 'invalid'
  /** Of the place; for an unknown field, of the object that has it. */
  readonly schema: TSchema
  readonly value: unknown
}

/** How many faults of one value are looked for: a hostile body has a million of them. */
export const faultsMax = 8

type Members = Readonly<Record<string, unknown>>
type Schemas = Readonly<Record<string, TSchema>>

const below = (pointer: string, key: string | number) =>
  `${pointer}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`
const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The JSON type that a schema asks for; null: it takes any, or one of several. */
function typeOf(schema: TSchema): string | null {
  if ('const' in schema) return jsonType(schema.const)
  return typeof schema.type === 'string' ? (schema.type === 'integer' ? 'number' : schema.type) : null
}

function jsonType(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** The branches of a union, those of unions inside it among them. */
export function branchesOf(schema: TSchema): readonly TSchema[] {
  return Array.isArray(schema.anyOf) ? (schema.anyOf as TSchema[]).flatMap(branchesOf) : [schema]
}

/**
 * Where a value differs from its schema: at most `faultsMax` places, in the order of required fields, unknown fields, and
 * the fields of the schema. Compiled checks skip what is right, so the work grows with the size of the value and not with the
 * number of its faults. Empty: it fits.
 */
export function findFaults(schema: TSchema, value: unknown): readonly Fault[] {
  return new Search().of(schema, value, '')
}

class Search {
  private readonly faults: Fault[] = []

  of(schema: TSchema, value: unknown, pointer: string): readonly Fault[] {
    this.look(schema, value, pointer)
    return this.faults
  }

  private get isFull(): boolean {
    return this.faults.length >= faultsMax
  }

  private found(fault: Fault): true {
    if (!this.isFull) this.faults.push(fault)
    return true
  }

  /** False where the value fits, and true where a fault of it was found or forgiven. */
  private look(schema: TSchema, value: unknown, pointer: string): boolean {
    if (this.isFull) return true
    if (fits(schema, value)) return false
    return (
      this.lookInside(schema, value, pointer) ||
      isLongInUnitsOnly(schema, value) ||
      this.found({ pointer, code: 'invalid', schema, value })
    )
  }

  private lookInside(schema: TSchema, value: unknown, pointer: string): boolean {
    if (Array.isArray(schema.anyOf)) return this.lookAtBranches(schema, value, pointer)
    if (schema.type === 'array' && Array.isArray(value)) return this.lookAtItems(schema, value, pointer)
    return schema.type === 'object' && isMembers(value) && this.lookAtMembers(schema, value, pointer)
  }

  private lookAtItems(schema: TSchema, value: readonly unknown[], pointer: string): boolean {
    const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema as { minItems?: number; maxItems?: number }
    if (value.length < minItems || value.length > maxItems) return false
    let differs = false
    for (let at = 0; at < value.length && !this.isFull; at++) {
      differs = this.look(schema.items as TSchema, value[at], below(pointer, at)) || differs
    }
    return differs
  }

  private lookAtMembers(schema: TSchema, value: Members, pointer: string): boolean {
    const keys = Object.keys(value)
    if (keys.length > ((schema.maxProperties as number | undefined) ?? keys.length)) return false
    const properties = (schema.properties ?? {}) as Schemas
    let differs = false
    for (const [name, property] of Object.entries(properties)) {
      if (OptionalKind in property || Object.hasOwn(value, name)) continue
      differs = this.found({ pointer: below(pointer, name), code: 'required', schema: property, value: undefined })
    }
    for (const key of keys) {
      if (this.isFull) break
      if (Object.hasOwn(properties, key)) continue
      differs = this.lookAtOther(schema, key, value[key], below(pointer, key)) || differs
    }
    for (const [name, property] of Object.entries(properties)) {
      if (Object.hasOwn(value, name)) differs = this.look(property, value[name], below(pointer, name)) || differs
    }
    return differs
  }

  /** A member that the schema does not name. */
  private lookAtOther(schema: TSchema, key: string, value: unknown, pointer: string): boolean {
    const [form] = Object.entries((schema.patternProperties ?? {}) as Schemas)
    if (form !== undefined && new RegExp(form[0]).test(key)) return this.look(form[1], value, pointer)
    return schema.additionalProperties === false && this.found({ pointer, code: 'unknown_field', schema, value })
  }

  /** The branch that was probably meant says what is wrong inside: of the value's type, with the fewest faults. */
  private lookAtBranches(schema: TSchema, value: unknown, pointer: string): boolean {
    const type = jsonType(value)
    const near = branchesOf(schema)
      .filter((branch) => typeOf(branch) === type && !('const' in branch))
      .map((branch) => new Search().of(branch, value, pointer))
    if (near.some((faults) => faults.length === 0)) return true
    const [meant = []] = near.toSorted((a, b) => distance(a, pointer) - distance(b, pointer))
    const inside = meant.filter((fault) => fault.pointer !== pointer)
    for (const fault of inside) this.found(fault)
    return inside.length > 0
  }
}

/** Our bounds count characters (§27). */
function isLongInUnitsOnly(schema: TSchema, value: unknown): boolean {
  const { maxLength, pattern } = schema as { readonly maxLength?: number; readonly pattern?: string }
  if (typeof value !== 'string' || maxLength === undefined) return false
  if (value.length <= maxLength || value.length > 2 * maxLength || [...value].length > maxLength) return false
  return pattern === undefined || new RegExp(pattern, 'u').test(value)
}

/** A branch whose own constants differ (`type: "json_schema"`) is one of another kind. */
function distance(faults: readonly Fault[], pointer: string): number {
  const other = faults.filter(({ schema, pointer: place }) => 'const' in schema && depth(place) === depth(pointer) + 1)
  return faults.length + other.length * (faultsMax + 1)
}

const depth = (pointer: string) => pointer.split('/').length
