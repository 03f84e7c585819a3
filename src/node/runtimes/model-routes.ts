import { Type } from '@sinclair/typebox'
import { Problem } from '../../errors.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import { checkBody } from '../../protocol/json/json-body.ts'
import { strict } from '../../protocol/wire/shapes.ts'
import type { RuntimeSet } from './runtime-set.ts'

export const modelWishBytesMax = 1_024

/** The path names the model, and the body is empty: only a file on this computer says which command runs. */
const Nothing = Type.Object({}, strict)

/**
 * A gateway asks to load or unload a model. Throws `model_not_found` if no runtime here has it, and `invalid_state` if
 * its server has no interface for it.
 */
export function answerModelWish(runtimes: RuntimeSet, wish: ModelWishName, id: string, body: string): Response {
  if (body !== '') checkBody(body, Nothing)
  const having = runtimes.list().filter(({ models }) => models.some((model) => model.id === id))
  if (having.length === 0) throw new Problem('model_not_found', { param: 'model' })
  const told = having.find((runtime) => runtime.tell?.(wish, id) === true)
  if (told === undefined) throw new Problem('invalid_state', { detail: 'The server of this model cannot be told' })
  return Response.json({ model: id, status: 'accepted' }, { status: 202, headers: { 'cache-control': 'no-store' } })
}
