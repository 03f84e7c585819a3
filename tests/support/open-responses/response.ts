import { type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/**
 * The response object of Open Responses (github.com/openresponses/openresponses, `schema/*.tsp` as of 2026-04-24), written anew: each key
 * that its schema requires, with the type that it has there. Other members are allowed, as there.
 */
const orNull = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
const oneOf = (...values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)))
export const text = Type.String()
export const whole = Type.Integer()
const anything = Type.Unknown()

const status = oneOf('in_progress', 'completed', 'incomplete')
const likely = { token: text, logprob: Type.Number(), bytes: Type.Array(whole) }
export const Probability = Type.Object({ ...likely, top_logprobs: Type.Array(Type.Object(likely)) })
const Citation = Type.Object({
  type: Type.Literal('url_citation'),
  url: text,
  start_index: whole,
  end_index: whole,
  title: text,
})
const named = (...types: readonly string[]) => Type.Object({ type: oneOf(...types), text })
export const Part = Type.Union([
  Type.Object({
    type: Type.Literal('output_text'),
    text,
    annotations: Type.Array(Citation),
    logprobs: Type.Optional(Type.Array(Probability)),
  }),
  named('input_text', 'text', 'summary_text', 'reasoning_text'),
  Type.Object({ type: Type.Literal('refusal'), refusal: text }),
])
const Message = Type.Object({
  type: Type.Literal('message'),
  id: text,
  status,
  role: oneOf('user', 'assistant', 'system', 'developer'),
  content: Type.Array(Part),
})
const FunctionCall = Type.Object({
  type: Type.Literal('function_call'),
  id: text,
  call_id: text,
  name: text,
  arguments: text,
  status,
})
const Reasoning = Type.Object({
  type: Type.Literal('reasoning'),
  id: text,
  content: Type.Optional(Type.Array(Part)),
  summary: Type.Array(Part),
  encrypted_content: Type.Optional(text),
})
export const Item = Type.Union([Message, FunctionCall, Reasoning])

const Tool = Type.Object({
  type: Type.Literal('function'),
  name: text,
  description: orNull(text),
  parameters: orNull(Type.Object({})),
  strict: orNull(Type.Boolean()),
})
const mode = oneOf('none', 'auto', 'required')
const chosen = Type.Object({ type: Type.Literal('function'), name: Type.Optional(text) })
const Format = Type.Union([
  Type.Object({ type: oneOf('text', 'json_object') }),
  // `schema` is null there, and the client's own here, as at OpenAI: see docs/compatibility.md.
  Type.Object({
    type: Type.Literal('json_schema'),
    name: text,
    description: orNull(text),
    schema: anything,
    strict: Type.Boolean(),
  }),
])

export const ResponseResource = Type.Object({
  id: text,
  object: Type.Literal('response'),
  created_at: whole,
  completed_at: orNull(whole),
  status: text,
  incomplete_details: orNull(Type.Object({ reason: text })),
  model: text,
  previous_response_id: orNull(text),
  instructions: orNull(text),
  output: Type.Array(Item),
  error: orNull(Type.Object({ code: text, message: text })),
  tools: Type.Array(Tool),
  tool_choice: Type.Union([
    mode,
    chosen,
    Type.Object({ type: Type.Literal('allowed_tools'), tools: Type.Array(chosen), mode }),
  ]),
  truncation: oneOf('auto', 'disabled'),
  parallel_tool_calls: Type.Boolean(),
  text: Type.Object({ format: Format, verbosity: Type.Optional(oneOf('low', 'medium', 'high')) }),
  top_p: Type.Number(),
  presence_penalty: Type.Number(),
  frequency_penalty: Type.Number(),
  top_logprobs: whole,
  temperature: Type.Number(),
  reasoning: orNull(
    Type.Object({
      effort: orNull(oneOf('none', 'low', 'medium', 'high', 'xhigh')),
      summary: orNull(oneOf('concise', 'detailed', 'auto')),
    }),
  ),
  usage: orNull(
    Type.Object({
      input_tokens: whole,
      output_tokens: whole,
      total_tokens: whole,
      input_tokens_details: Type.Object({ cached_tokens: whole }),
      output_tokens_details: Type.Object({ reasoning_tokens: whole }),
    }),
  ),
  max_output_tokens: orNull(whole),
  max_tool_calls: orNull(whole),
  store: Type.Boolean(),
  background: Type.Boolean(),
  service_tier: text,
  metadata: anything,
  safety_identifier: orNull(text),
  prompt_cache_key: orNull(text),
})

/** Where and why a value breaks a schema; nothing where it fits. */
export const faultsOf = (schema: TSchema, value: unknown): readonly string[] =>
  [...Value.Errors(schema, value)].map(({ path, message }) => `${path}: ${message}`)
