import type { ChunkIdentity, SettledEnd } from '../../chat/chunk-reader.ts'
import type { PublicChoice } from '../../chat/completion.ts'
import { thoughtOf } from '../../chat/thought.ts'
import type { TokenUsage } from '../../chat/token-usage.ts'
import { foreignJsonExactly } from '../../json/exact-numbers.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { matchedStop, type Stopped } from '../members/matched-stop.ts'

type StopReason = 'end_turn' | 'max_tokens' | 'tool_use' | 'refusal' | 'stop_sequence'
const reasons: Readonly<Record<string, StopReason>> = {
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
}

/**
 * How a message ended. `calls`: it has some; servers then give different reasons. `stops`: those of the request; at others an answer
 * ends by itself.
 */
export function stopOf(choice: (Json & Stopped) | undefined, calls: boolean, stops: unknown) {
  const reason: StopReason = reasons[String(choice?.finish_reason)] ?? 'end_turn'
  const at = choice?.[matchedStop]
  const atStop = reason === 'end_turn' && !calls && at !== undefined && Array.isArray(stops) && stops.includes(at)
  if (atStop) return { stop_reason: 'stop_sequence', stop_sequence: at } as const
  return { stop_reason: reason === 'end_turn' && calls ? 'tool_use' : reason, stop_sequence: null } as const
}

export const textBlock = (text: string) => ({ type: 'text', text, citations: null }) as const
/** The signature is empty: the gateway does not check thinking blocks and never sends them back to a node. */
export const thinkingBlock = (thinking: string) => ({ type: 'thinking', thinking, signature: '' }) as const
export const toolBlock = (id: string, name: string, input: unknown) =>
  ({ type: 'tool_use', id, name, input, caller: { type: 'direct' } }) as const

/** Nothing that only Anthropic's own servers know. `input_tokens` are those that the cache did not have, as theirs are. */
export const usageOf = ({ cached_tokens: cached, reasoning_tokens: thought, ...usage }: TokenUsage) => ({
  input_tokens: usage.prompt_tokens - (cached ?? 0),
  output_tokens: usage.completion_tokens,
  cache_creation_input_tokens: null,
  cache_read_input_tokens: cached ?? null,
  output_tokens_details: thought === undefined ? null : { thinking_tokens: thought },
  server_tool_use: null,
})
export const startUsage = { cache_creation: null, inference_geo: null, service_tier: null, speed: null } as const

/** All of a message but its content, its end and its usage. */
export const messageHead = ({ id, model }: ChunkIdentity) =>
  ({ id, type: 'message', role: 'assistant', model, container: null, diagnostics: null }) as const

function inputOf(text: unknown): unknown {
  const input = typeof text === 'string' ? foreignJsonExactly(text) : text
  return isObject(input) ? input : {}
}

function* blocksOf(message: Json, id: string) {
  const thought = thoughtOf(message)
  if (thought !== '') yield thinkingBlock(thought)
  const text = typeof message.content === 'string' ? message.content : message.refusal
  if (typeof text === 'string' && text !== '') yield textBlock(text)
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls : []
  for (const [index, call] of calls.entries()) {
    if (!isObject(call) || !isObject(call.function) || typeof call.function.name !== 'string') continue
    const callId = typeof call.id === 'string' && call.id !== '' ? call.id : `toolu_${id}_${index}`
    yield toolBlock(callId, call.function.name, inputOf(call.function.arguments))
  }
}

/** The body of a whole answer, as it goes on the wire. `stops`: of its request. */
export function messageText(
  identity: ChunkIdentity,
  choices: readonly PublicChoice[],
  { usage, metadata }: SettledEnd,
  stops: unknown,
): string {
  const [choice] = choices
  const content = [...blocksOf(choice?.message ?? {}, identity.id)]
  return JSON.stringify({
    ...messageHead(identity),
    content,
    ...stopOf(
      choice as (Json & Stopped) | undefined,
      content.some(({ type }) => type === 'tool_use'),
      stops,
    ),
    stop_details: null,
    usage: { ...usageOf(usage), ...startUsage },
    svc: metadata,
  })
}
