import type { ChunkIdentity, SettledEnd } from '../../chat/chunk-reader.ts'
import type { PublicChoice } from '../../chat/completion.ts'
import { thoughtOf } from '../../chat/thought.ts'
import { foreignJsonExactly } from '../../json/exact-numbers.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { jsonString } from '../../json/json-text.ts'

const nanosecondsPerMs = 1_000_000

export interface OllamaCall {
  readonly id?: string
  readonly function: { readonly index: number; readonly name: string; readonly arguments: Json }
}

/** The text and calls of a chunk or of a whole answer. */
export interface Said {
  readonly text: string
  readonly thought: string
  readonly calls?: readonly OllamaCall[]
}

/** The form of this in one of Ollama's two interfaces. */
export type Saying = (said: Said) => object

const thoughtMember = (thought: string) => (thought === '' ? {} : { thinking: thought })

export const asMessage: Saying = ({ text, thought, calls = [] }) => ({
  message: {
    role: 'assistant',
    content: text,
    ...thoughtMember(thought),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  },
})
export const asResponse: Saying = ({ text, thought }) => ({ response: text, ...thoughtMember(thought) })

/** Of all lines of one answer. */
export const headOf = ({ model, created }: ChunkIdentity) => ({
  model,
  created_at: new Date(created * 1_000).toISOString(),
})

/** Arguments that are no JSON object are left out. */
export function callOf(id: unknown, name: string, input: unknown, index: number): OllamaCall {
  const value = typeof input === 'string' ? foreignJsonExactly(input) : input
  const named = typeof id === 'string' && id !== '' ? { id } : {}
  return { ...named, function: { index, name, arguments: isObject(value) ? value : {} } }
}

function* callsOf(calls: unknown): Generator<OllamaCall> {
  for (const [index, call] of (Array.isArray(calls) ? calls : []).entries()) {
    if (!isObject(call) || !isObject(call.function) || typeof call.function.name !== 'string') continue
    yield callOf(call.id, call.function.name, call.function.arguments, index)
  }
}

export const textOf = ({ content, refusal }: Json): string => {
  const text = content ?? refusal
  return typeof text === 'string' ? text : ''
}

export const logprobsOf = (logprobs: unknown) =>
  isObject(logprobs) && Array.isArray(logprobs.content) ? { logprobs: logprobs.content } : {}

const times = (all: number, prompt: number) => ({
  total_duration: all * nanosecondsPerMs,
  load_duration: 0,
  prompt_eval_duration: prompt * nanosecondsPerMs,
  // Clients divide by it.
  eval_duration: Math.max(1, all - prompt) * nanosecondsPerMs,
})

/**
 * The end of an answer: reason, tokens, durations. The first token's time of a whole answer is unknown, so all of its
 * time counts as generating.
 */
export function endOf(finish: unknown, { usage, metadata }: SettledEnd, streamed: boolean): object {
  const { latency_ms: all, ttft_ms: first } = metadata
  return {
    done: true,
    done_reason: finish === 'length' ? 'length' : 'stop',
    ...times(all, streamed ? Math.min(first, all) : 0),
    prompt_eval_count: usage.prompt_tokens,
    eval_count: usage.completion_tokens,
    svc: metadata,
  }
}

/** The body of a whole answer. */
export function answerText(
  saying: Saying,
  identity: ChunkIdentity,
  choices: readonly PublicChoice[],
  end: SettledEnd,
): string {
  const { message = {}, finish_reason: finish, logprobs } = choices[0] ?? {}
  const said = { text: textOf(message), thought: thoughtOf(message), calls: [...callsOf(message.tool_calls)] }
  return JSON.stringify({
    ...headOf(identity),
    ...saying(said),
    ...logprobsOf(logprobs),
    ...endOf(finish, end, false),
  })
}

/** The answer to a request without a prompt: the model was loaded, or has left the memory. */
export const idleText = (saying: Saying, identity: ChunkIdentity, reason: 'load' | 'unload'): string =>
  JSON.stringify({ ...headOf(identity), ...saying({ text: '', thought: '' }), done: true, done_reason: reason })

/** Vectors of a list of texts. Each is JSON already. */
export function embedText(
  { model }: ChunkIdentity,
  vectors: readonly string[],
  { usage, metadata }: SettledEnd,
): string {
  const total = metadata.latency_ms * nanosecondsPerMs
  return `{"model":${jsonString(model)},"embeddings":[${vectors.join(',')}],"total_duration":${total},"load_duration":0,"prompt_eval_count":${usage.prompt_tokens},"svc":${JSON.stringify(metadata)}}`
}

/** The vector of one text. */
export const embeddingText = (vectors: readonly string[], { metadata }: SettledEnd): string =>
  `{"embedding":${vectors[0]},"svc":${JSON.stringify(metadata)}}`
