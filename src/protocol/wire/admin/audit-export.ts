import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, hash, literals, nullable } from '../shapes.ts'

const mac = Type.String({ pattern: '^[0-9a-f]{64}$' })
const facts = Type.Object({}, { additionalProperties: true, description: 'All that the MAC covers' })

/** A part of one writer's chain, with everything that a check of it takes but the key. */
export const AuditPart = Type.Object({
  writer_id: Type.String(),
  ordinal: count,
  key_id: Type.String(),
  seq: count,
  mac,
  /** Before its first event here: the start, or what a purge has left. */
  begins: Type.Object({
    seq: count,
    mac,
    tombstone: nullable(Type.Object({ facts, proof: mac })),
  }),
  events: Type.Array(Type.Object({ kind: literals(['approval', 'command']), facts, mac }), { maxItems: 1_000 }),
  /** The newest end of this chain in the public log; null: none yet. */
  logged: nullable(Type.Object({ seq: count, mac: Type.String(), hash, entry: hash })),
  next_after: nullable(count),
})
export type AuditPart = Static<typeof AuditPart>

export const AuditExport = Type.Object({
  object: Type.Literal(`${brand}.admin.audit_export`),
  chain: nullable(AuditPart),
})
export type AuditExport = Static<typeof AuditExport>
