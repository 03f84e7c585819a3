import type { ChunkIdentity, SettledEnd } from '../../chat/chunk-reader.ts'
import type { PublicChoice } from '../../chat/completion.ts'
import { thoughtOf } from '../../chat/thought.ts'
import type { TokenUsage } from '../../chat/token-usage.ts'
import { isObject } from '../../json/json-object.ts'
import type { Echo } from './echo.ts'
import { type Probability, probabilitiesOf } from './probabilities.ts'
import { type CalledFunction, calledFunction, namespaced } from './tools.ts'

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

const textPart = (text: string, logprobs: readonly Probability[] = []) =>
  ({ type: 'output_text', text, annotations: [], logprobs }) as const
const thoughtPart = (text: string) => ({ type: 'reasoning_text', text }) as const

export const messageItem = (id: string, status: ItemStatus, content: readonly object[]) =>
  ({ id, type: 'message', status, role: 'assistant', content }) as const
export const reasoningItem = (id: string, status: ItemStatus, content: readonly object[]) =>
  ({ id, type: 'reasoning', status, summary: [], content }) as const
interface FunctionCall extends CalledFunction {
  readonly call_id: string
  readonly arguments: string
}
export const callItem = (id: string, status: ItemStatus, call: FunctionCall) =>
  ({ id, type: 'function_call', status, ...call }) as const
export type OutputItem = ReturnType<typeof messageItem> | ReturnType<typeof reasoningItem> | ReturnType<typeof callItem>

/** Ids of items are those of their response with another head. */
export const itemId = (head: 'msg' | 'rs' | 'fc', { id }: ChunkIdentity, index: number) =>
  `${head}_${id.slice(id.indexOf('_') + 1)}_${index}`

/** Published clients read both details as numbers, so that what a node does not report is zero here. */
const usageOf = ({ cached_tokens: cached = 0, reasoning_tokens: thought = 0, ...usage }: TokenUsage) => ({
  input_tokens: usage.prompt_tokens,
  input_tokens_details: { cached_tokens: cached, cache_write_tokens: 0 },
  output_tokens: usage.completion_tokens,
  output_tokens_details: { reasoning_tokens: thought },
  total_tokens: usage.total_tokens,
})

/** Why an answer that ended is not whole; null: it is. */
export function incompleteReason(finish: unknown): 'max_output_tokens' | 'content_filter' | null {
  if (finish === 'length') return 'max_output_tokens'
  return finish === 'content_filter' ? 'content_filter' : null
}

/** `end` null: it still runs. */
export function responseObject(
  { id, created, model }: ChunkIdentity,
  echo: Echo,
  output: readonly OutputItem[],
  end: { readonly settled: SettledEnd; readonly finish: unknown } | null,
) {
  const reason = end === null ? null : incompleteReason(end.finish)
  const isCompleted = end !== null && reason === null
  return {
    id,
    object: 'response',
    created_at: created,
    completed_at: isCompleted ? created + Math.floor(end.settled.metadata.latency_ms / 1_000) : null,
    status: end === null ? 'in_progress' : isCompleted ? 'completed' : 'incomplete',
    error: null,
    incomplete_details: reason === null ? null : { reason },
    model,
    output,
    ...echo,
    usage: end === null ? null : usageOf(end.settled.usage),
    ...(end === null ? {} : { svc: end.settled.metadata }),
  }
}

function* itemsOf(
  { message, logprobs }: Pick<PublicChoice, 'message' | 'logprobs'>,
  identity: ChunkIdentity,
  { tools }: Echo,
  status: ItemStatus,
): Generator<OutputItem> {
  let index = 0
  const functions = namespaced(tools)
  const thought = thoughtOf(message)
  if (thought !== '') yield reasoningItem(itemId('rs', identity, index++), status, [thoughtPart(thought)])
  const text = typeof message.content === 'string' ? message.content : message.refusal
  if (typeof text === 'string' && text !== '') {
    yield messageItem(itemId('msg', identity, index++), status, [textPart(text, probabilitiesOf(logprobs))])
  }
  for (const call of Array.isArray(message.tool_calls) ? message.tool_calls : []) {
    if (!isObject(call) || !isObject(call.function) || typeof call.function.name !== 'string') continue
    const id = itemId('fc', identity, index++)
    const { name, arguments: input } = call.function
    const callId = typeof call.id === 'string' && call.id !== '' ? call.id : id
    const given = typeof input === 'string' ? input : '{}'
    yield callItem(id, status, { call_id: callId, ...calledFunction(functions, name), arguments: given })
  }
}

/** The body of a whole answer, as it goes on the wire. */
export function responseText(
  identity: ChunkIdentity,
  echo: Echo,
  choices: readonly PublicChoice[],
  settled: SettledEnd,
): string {
  const [choice] = choices
  const finish = choice?.finish_reason
  const status = incompleteReason(finish) === null ? 'completed' : 'incomplete'
  const output = [...itemsOf(choice ?? { message: {} }, identity, echo, status)]
  return JSON.stringify(responseObject(identity, echo, output, { settled, finish }))
}

/** The JSON of a part with this text and these probabilities, which are JSON already. */
export function partText(kind: 'text' | 'thought' | 'call', quoted: string, probabilities: string): string {
  const [before = '', behind = ''] = JSON.stringify(kind === 'text' ? textPart('') : thoughtPart('')).split('""')
  const [annotated = '', end = ''] = behind.split('"logprobs":[')
  return before + quoted + annotated + (end === '' ? '' : `"logprobs":[${probabilities}${end}`)
}
