import { Type } from '@sinclair/typebox'
import { Problem } from '../../errors.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import { checkBody } from '../../protocol/json/json-body.ts'
import type { ModelLog } from '../../protocol/wire/nodes/agent.ts'
import { strict } from '../../protocol/wire/shapes.ts'
import type { LocalRuntime } from './local-runtime.ts'
import type { RuntimeSet } from './runtime-set.ts'

export const modelWishBytesMax = 1_024

const unkept = { 'cache-control': 'no-store' }

/** The path names the model, and the body is empty: only a file on this computer says which command runs. */
const Nothing = Type.Object({}, strict)

/** The runtimes that have the model. */
function having(runtimes: RuntimeSet, id: string, body: string): readonly LocalRuntime[] {
  if (body !== '') checkBody(body, Nothing)
  const found = runtimes.list().filter(({ models }) => models.some((model) => model.id === id))
  if (found.length === 0) throw new Problem('model_not_found', { param: 'model' })
  return found
}

/**
 * A gateway asks to load or unload a model. Throws `model_not_found` if no runtime here has it, and `invalid_state` if
 * its server has no interface for it.
 */
export function answerModelWish(runtimes: RuntimeSet, wish: ModelWishName, id: string, body: string): Response {
  const controlled = having(runtimes, id, body).find((runtime) => runtime.tell?.(wish, id) === true)
  if (controlled === undefined)
    throw new Problem('invalid_state', { detail: 'The server of this model cannot be told' })
  return Response.json({ model: id, status: 'accepted' }, { status: 202, headers: unkept })
}

/**
 * A gateway asks what a model's server has written last. Throws `model_not_found` as above, and `invalid_state` if the agent does not
 * run the server, or its owner's file does not let others read it.
 */
export function answerModelLog(runtimes: RuntimeSet, id: string, body: string): Response {
  const lines = having(runtimes, id, body)
    .map((runtime) => runtime.lastLines?.() ?? null)
    .find((found) => found !== null)
  if (lines === undefined) throw new Problem('invalid_state', { detail: 'The output of this server stays here' })
  return Response.json({ lines: [...lines] } satisfies ModelLog, { headers: unkept })
}
