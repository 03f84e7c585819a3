import { Type } from '@sinclair/typebox'
import type { InferenceRequest } from '../../actors/operations/operation.ts'
import { Problem } from '../../errors.ts'
import { mustBe } from '../../protocol/validation/words.ts'
import { text } from '../../protocol/wire/query.ts'
import { invalidParameter, matches } from '../frame/query.ts'

/** The query parameters of an inference request. */
export const pinQuery = {
  node_id: Type.Optional(
    text(
      '^[A-Za-z0-9._-]{1,64}$',
      'the id of a node: 1 to 64 letters, digits or . _ -',
      'The one node of yours that may answer',
    ),
  ),
}

/** The one pin of body and query; null without one. `query`: the raw query string, without `?`. */
export function readPin(body: InferenceRequest, query: string): string | null {
  const inBody = body.svc?.node_id ?? null
  if (query === '') return inBody
  const pins = new URLSearchParams(query).getAll('node_id')
  const [inQuery] = pins
  if (inQuery === undefined) return inBody
  if (pins.length > 1) throw invalidParameter('node_id', 'is given more than once. Send it once', 'duplicate')
  if (!matches(pinQuery.node_id, inQuery)) throw invalidParameter('node_id', mustBe(pinQuery.node_id, inQuery))
  if (inBody !== null && inBody !== inQuery) throw new Problem('node_pin_conflict', { param: 'query.node_id' })
  return inQuery
}

/** The place where a mixture names a node, which it may not, as an error's `param`. Which node it names does not matter. */
export function mixturePin({ svc }: InferenceRequest, query: string): string | null {
  if (svc?.node_id !== undefined) return 'svc.node_id'
  // A profile is one model on one runtime of one node.
  if (svc?.model_profile_id !== undefined) return 'svc.model_profile_id'
  return query !== '' && new URLSearchParams(query).has('node_id') ? 'query.node_id' : null
}
