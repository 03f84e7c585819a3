import { type Static, Type } from '@sinclair/typebox'
import { formed, strict } from '../shapes.ts'

/** Facts that a model server tells about a model. A member that it does not tell is absent. */

const labelsMax = 16
/** Longer words describe no model. */
const labelForm = '^[\\x20-\\x7e]{1,64}$'
const label = formed(labelForm, '1 to 64 printable ASCII characters')
const labels = Type.Array(label, { minItems: 1, maxItems: labelsMax })

/** Of the files of a model on its server's disk. */
export const ModelFile = Type.Object(
  {
    size_bytes: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
    digest: Type.Optional(formed('^[0-9a-f]{64}$', 'a SHA-256 in hex')),
    modified_at: Type.Optional(
      formed(
        '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$',
        'a time in UTC with milliseconds, such as 2026-11-20T16:00:00.000Z',
      ),
    ),
    format: Type.Optional(label),
    family: Type.Optional(label),
    families: Type.Optional(labels),
    parameter_size: Type.Optional(label),
    quantization_level: Type.Optional(label),
    capabilities: Type.Optional(labels),
  },
  strict,
)
export type ModelFile = Static<typeof ModelFile>

/** Of a model in memory; `video_bytes` is the part on graphics cards. */
export const ModelMemory = Type.Object(
  {
    bytes: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    video_bytes: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  },
  strict,
)
export type ModelMemory = Static<typeof ModelMemory>

const isLabel = new RegExp(labelForm)
/** A server's word about a model; null: it is too long, or no printable text. */
export const labelOf = (value: unknown): string | null =>
  typeof value === 'string' && isLabel.test(value) ? value : null

/** Several of them; null: the server says none. */
export function labelsOf(value: unknown): string[] | null {
  const all = (Array.isArray(value) ? value.slice(0, labelsMax) : []).flatMap((each) => labelOf(each) ?? [])
  return all.length === 0 ? null : all
}
