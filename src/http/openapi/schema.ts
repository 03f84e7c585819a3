import { unwrapSchema } from '@elysiajs/openapi/openapi'
import type { TSchema } from '@sinclair/typebox'

export interface JsonObject {
  [key: string]: unknown
}

/** A TypeBox schema as OpenAPI 3.1 has it: enums for unions of literals, `type: [x, "null"]`, no symbols, no `$id`. */
export function openApiSchema(schema: TSchema): JsonObject {
  return plain(unwrapSchema(schema)) as JsonObject
}

/**
 * A deep copy of what JSON would keep, without the `$id`s that the plugin leaves in components, and with null among the
 * values of an enum that may be null: the plugin widens its type and forgets its values.
 */
export function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (key, item) => (key === '$id' ? undefined : withNullValue(item))))
}

function withNullValue(item: unknown): unknown {
  const { enum: values, type } = (item ?? {}) as { enum?: unknown; type?: unknown }
  if (!Array.isArray(values) || !Array.isArray(type)) return item
  return type.includes('null') && !values.includes(null) ? { ...(item as JsonObject), enum: [...values, null] } : item
}

export const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
