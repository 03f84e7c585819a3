import { isObject, type Json } from '../../json/json-object.ts'
import type { ResponsesRequest } from '../../wire/inference/responses.ts'

/** Under it a translated request keeps what its response repeats; no writer of JSON sees it. */
export const echoed: unique symbol = Symbol('echoed')

const numberOr = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : otherwise)
const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** The schema has these keys in every function, whether its client sent them or not. */
const functionOf = (tool: Json): Json =>
  tool.type === 'function' ? { ...{ description: null, parameters: null, strict: null }, ...tool } : tool

const formatOf = (format: Json): Json =>
  format.type === 'json_schema' ? { description: null, ...format, strict: format.strict === true } : format

/**
 * The part of a request that every response repeats, as the schema of Open Responses requires: all but the input. Where it wants a
 * number that the client left out, the response has OpenAI's default; the node samples with its own, which it does not tell.
 */
export function echoOf(asked: ResponsesRequest) {
  const more: Json = asked
  return {
    instructions: asked.instructions ?? null,
    max_output_tokens: asked.max_output_tokens ?? null,
    max_tool_calls: typeof more.max_tool_calls === 'number' ? more.max_tool_calls : null,
    metadata: asked.metadata ?? {},
    parallel_tool_calls: asked.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: asked.reasoning?.effort ?? null, summary: null },
    store: false,
    temperature: asked.temperature ?? 1,
    text: { format: isObject(asked.text?.format) ? formatOf(asked.text.format) : { type: 'text' } },
    tool_choice: asked.tool_choice ?? 'auto',
    tools: (asked.tools ?? []).map(functionOf) as NonNullable<ResponsesRequest['tools']>,
    top_logprobs: asked.top_logprobs ?? 0,
    top_p: asked.top_p ?? 1,
    presence_penalty: numberOr(more.presence_penalty, 0),
    frequency_penalty: numberOr(more.frequency_penalty, 0),
    truncation: 'disabled',
    background: false,
    service_tier: 'default',
    safety_identifier: textOrNull(more.safety_identifier),
    prompt_cache_key: textOrNull(more.prompt_cache_key),
    access_programs: null,
  }
}
export type Echo = ReturnType<typeof echoOf>
