import type { ResponsesRequest } from '../../wire/inference/responses.ts'

/** Under it a translated request keeps what its response repeats; no writer of JSON sees it. */
export const echoed: unique symbol = Symbol('echoed')

/** The part of a request that every response repeats, as the schema requires: all but the input. */
export function echoOf(asked: ResponsesRequest) {
  return {
    instructions: asked.instructions ?? null,
    max_output_tokens: asked.max_output_tokens ?? null,
    metadata: asked.metadata ?? {},
    parallel_tool_calls: asked.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: asked.reasoning?.effort ?? null, summary: null },
    store: false,
    temperature: asked.temperature ?? null,
    text: { format: asked.text?.format ?? { type: 'text' } },
    tool_choice: asked.tool_choice ?? 'auto',
    tools: asked.tools ?? [],
    top_logprobs: asked.top_logprobs ?? 0,
    top_p: asked.top_p ?? null,
    truncation: 'disabled',
    background: false,
    access_programs: null,
  }
}
export type Echo = ReturnType<typeof echoOf>
