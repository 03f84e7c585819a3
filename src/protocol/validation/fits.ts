import type { TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'

const compiled = new WeakMap<TSchema, TypeCheck<TSchema>>()

/**
 * Whether a value matches a schema. The check is compiled when it is first needed and kept, so a schema is a constant of
 * its module. TypeBox counts UTF-16 units where our bounds count characters, so a long text may fit although this says no.
 */
export function fits(schema: TSchema, value: unknown): boolean {
  let check = compiled.get(schema)
  if (check === undefined) {
    check = TypeCompiler.Compile<TSchema>(schema)
    compiled.set(schema, check)
  }
  return check.Check(value)
}
