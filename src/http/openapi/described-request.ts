import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { operations, routeOf } from '../../actors/operations/registry.ts'
import { type Door, doors, type Fate, type Field } from '../../protocol/dialects/field.ts'
import { fields, valueAt } from '../../protocol/dialects/fields.ts'
import { nullable } from '../../protocol/wire/shapes.ts'
import { sampleOf } from './samples.ts'
import { openApiSchema } from './schema.ts'

/** What becomes of a field that the door does not check. One that it refuses is no field of its request. */
const fateTexts: Readonly<Record<Exclude<Fate, 'refused'>, string>> = {
  carried: 'the gateway passes it on, and the node checks it',
  mapped: 'the node gets it in another form',
  hint: 'for the gateway alone',
  dropped: 'accepted, and passed on to no node',
}

function describedField(row: Field, door: Door, fate: Exclude<Fate, 'refused'>): TSchema {
  const { description, ...value } = valueAt(row, door)
  const ofWhom = `${row.of}: ${fateTexts[fate]}.`
  return Type.Optional({
    ...nullable(value as TSchema),
    description: description === undefined ? ofWhom : `${description}. ${ofWhom}`,
  })
}

/**
 * The request of a door with all fields of the table, not only with those that it checks itself (§35). Its example has what the door
 * requires: one with all fields would ask for everything at once, and no door takes that.
 */
export function describedRequest(door: Door, checked: TObject): TObject {
  const others = Object.entries(fields).flatMap(([name, row]) => {
    const fate = row.at[door]
    const described = fate === undefined || fate === 'refused' || Object.hasOwn(checked.properties, name)
    return described ? [] : [[name, describedField(row, door, fate)] as const]
  })
  const required = Type.Pick(checked, checked.required ?? [])
  const properties = { ...checked.properties, ...Object.fromEntries(others) }
  return Type.Object(properties, { additionalProperties: true, examples: [sampleOf(openApiSchema(required))] })
}

const doorsByPath: ReadonlyMap<string, Door> = new Map(
  operations.flatMap((operation) => {
    const door = doors.find((each) => each === operation.name)
    return door === undefined ? [] : [[routeOf(operation), door] as const]
  }),
)

/** The schema of the body at a path, as OpenAPI shows it. */
export function describedAt(path: string, checked: TSchema): TSchema {
  const door = doorsByPath.get(path)
  return door === undefined ? checked : describedRequest(door, checked as TObject)
}
