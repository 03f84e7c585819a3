import { nodeChunk, type ScriptedCall, type ScriptedNode } from './scripted-node.ts'

export const answeredUsage = { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 }

/** Answers every call whole, and resolves with the body of the next one. */
export function answerWhole(node: ScriptedNode, message: object, finish = 'stop'): Promise<Record<string, unknown>> {
  const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>()
  node.answer((call) => {
    resolve(call.body)
    call.respond(200, { choices: [{ index: 0, message, finish_reason: finish }], usage: answeredUsage })
  })
  return promise
}

/** Answers every call with a stream; with null for `finish` it goes on with `end` in the place of its finish. */
export function answerStream(
  node: ScriptedNode,
  deltas: readonly object[],
  finish: string | null,
  end?: (call: ScriptedCall) => void,
): void {
  node.answer(async (call) => {
    call.open()
    for (const delta of deltas) await call.event(nodeChunk(delta))
    if (finish === null) return end?.(call)
    await call.event(nodeChunk({}, finish, { usage: answeredUsage }))
    await call.event('[DONE]')
    call.end()
  })
}
