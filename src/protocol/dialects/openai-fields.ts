import { Type } from '@sinclair/typebox'
import { literals } from '../wire/shapes.ts'
import { alike, at, carriedEverywhere, everywhere, field, notAt, ofTexts } from './field.ts'
import {
  anything,
  flag,
  list,
  number,
  object,
  shortText,
  text,
  texts,
  tokens,
  topProbabilities,
  whole,
} from './values.ts'

const open = { additionalProperties: true } as const
const orNull = <S extends Parameters<typeof Type.Optional>[0]>(schema: S) =>
  Type.Optional(Type.Union([schema, Type.Null()]))

/** Of one request of Ollama's, and of Messages: more are no request of a person or an agent. */
const stopsMax = 64
/** `n`, and `best_of`: answers to each prompt. */
const answersMax = 16
const answers = whole({ minimum: 1, maximum: answersMax })
const dimensionsMax = 65_536
const penalty = number({ minimum: -2, maximum: 2 })
const stops = Type.Union([text(), texts()], { description: 'where the answer ends' })
const format = object('`text`, `json_object` or `json_schema`, by its `type`')
const effort = text('`none`, `minimal`, `low`, `medium`, `high` and others, by the model')

const instead = {
  logprobs: { responses: 'include' },
  max_tokens: { responses: 'max_output_tokens', ollama: 'options.num_predict' },
  max_completion_tokens: {
    responses: 'max_output_tokens',
    messages: 'max_tokens',
    ollama: 'options.num_predict',
  },
  response_format: { responses: 'text.format', messages: 'output_config.format', ollama: 'format' },
  verbosity: { responses: 'text.verbosity' },
  reasoning_effort: { responses: 'reasoning.effort', messages: 'output_config.effort', ollama: 'think' },
  parallel_tool_calls: { messages: 'tool_choice.disable_parallel_tool_use' },
} as const

/** What OpenAI’s requests say of the next token and of the answer. */
const ofAnswers = {
  temperature: field('OpenAI', carriedEverywhere, number({ minimum: 0, maximum: 2 })),
  top_p: field('OpenAI', carriedEverywhere, number({ exclusiveMinimum: 0, maximum: 1 }), {
    valueAt: { ollama: number({ minimum: 0, maximum: 1 }) },
  }),
  seed: field('OpenAI', carriedEverywhere, whole()),
  ...alike(
    ['presence_penalty', 'frequency_penalty'],
    field('OpenAI', carriedEverywhere, penalty, { valueAt: { ollama: number() } }),
  ),
  stop: field('OpenAI', carriedEverywhere, stops, {
    valueAt: { ollama: Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: stopsMax })]) },
  }),
  logit_bias: field('OpenAI', everywhere, object('token ids with -100 to 100; llama.cpp takes pairs in a list, too')),
  logprobs: field('OpenAI', notAt({ ...ofTexts, ollama: 'mapped' }, instead.logprobs), flag(), {
    note: 'Ollama: beside `options`',
    instead: instead.logprobs,
    valueAt: { completions: whole({ minimum: 0 }, 'how many of the likeliest tokens to tell') },
  }),
  top_logprobs: field('OpenAI', { chat: 'carried', responses: 'mapped', ollama: 'mapped' }, topProbabilities, {
    note: 'beside `options`; Responses: with `logprobs`',
  }),
  n: field(
    'OpenAI',
    { chat: 'refused', completions: 'hint', responses: 'refused', messages: 'refused', ollama: 'refused' },
    whole({ minimum: 1 }),
    { note: 'beyond 1; completions: a call for each', valueAt: { completions: answers } },
  ),
  best_of: field('OpenAI', { completions: 'mapped' }, answers, { note: 'a call for each, beyond `n` with `logprobs`' }),
  max_tokens: field('OpenAI', notAt({ ...ofTexts, messages: 'carried' }, instead.max_tokens), tokens, {
    instead: instead.max_tokens,
  }),
  max_completion_tokens: field(
    'OpenAI',
    notAt({ chat: 'carried', completions: 'mapped' }, instead.max_completion_tokens),
    tokens,
    {
      note: 'Completions, and chats at llama.cpp, Ollama and LM Studio: `max_tokens`',
      instead: instead.max_completion_tokens,
    },
  ),
  response_format: field('OpenAI', notAt(ofTexts, instead.response_format), format, {
    instead: instead.response_format,
  }),
  verbosity: field(
    'OpenAI',
    notAt({ chat: 'carried', messages: 'carried', ollama: 'carried' }, instead.verbosity),
    text('`low`, `medium` or `high`'),
    { instead: instead.verbosity },
  ),
  reasoning_effort: field('OpenAI', notAt(ofTexts, instead.reasoning_effort), effort, {
    instead: instead.reasoning_effort,
  }),
  parallel_tool_calls: field(
    'OpenAI',
    notAt({ chat: 'carried', responses: 'carried', ollama: 'carried' }, instead.parallel_tool_calls),
    flag(),
    { instead: instead.parallel_tool_calls },
  ),
  stream_options: field(
    'OpenAI',
    { ...ofTexts, responses: 'dropped', messages: 'dropped', ollama: 'dropped' },
    object('`include_usage`: the usage has a chunk of its own'),
    { note: 'elsewhere a stream always ends with its usage' },
  ),
  suffix: field('OpenAI', ofTexts, text('the text behind the answer')),
  echo: field('OpenAI', ofTexts, flag('the prompt stands before the answer')),
}

/** What the gateway reads or drops of every request. */
const ofRequests = {
  ...alike(['user', 'safety_identifier'], field('OpenAI', at('dropped'), text())),
  store: field('OpenAI', at('dropped'), flag()),
  metadata: field('OpenAI', at('dropped'), object()),
  service_tier: field('OpenAI', at('dropped'), text()),
  client_metadata: field('OpenAI', { responses: 'dropped' }, object(), { note: 'Codex sends it' }),
  prompt_cache_key: field('OpenAI', at('hint'), text('requests with the same one go where the prompt is known')),
}

/** Responses’ own. */
const ofResponses = {
  max_output_tokens: field('OpenAI', { responses: 'mapped' }, tokens, { note: '`max_tokens`' }),
  reasoning: field('OpenAI', { responses: 'mapped' }, Type.Object({ effort: orNull(shortText(16)) }, open), {
    note: '`reasoning_effort`',
  }),
  text: field(
    'OpenAI',
    { responses: 'mapped' },
    Type.Object({ format: orNull(Type.Object({ type: Type.String() }, open)), verbosity: orNull(shortText(16)) }, open),
    { note: '`response_format`, `verbosity`' },
  ),
  instructions: field('OpenAI', { responses: 'mapped' }, text(), { note: 'a system message' }),
  previous_response_id: field('OpenAI', { responses: 'refused' }, text()),
  conversation: field('OpenAI', { responses: 'refused' }, anything()),
  background: field('OpenAI', { responses: 'refused' }, flag()),
  prompt: field('OpenAI', { responses: 'refused' }, object()),
  include: field(
    'OpenAI',
    { responses: 'mapped' },
    list(literals(['message.output_text.logprobs', 'reasoning.encrypted_content'])),
    {
      note: '`message.output_text.logprobs` is `logprobs`; all but it and `reasoning.encrypted_content` is refused',
    },
  ),
  max_tool_calls: field('OpenAI', { responses: 'dropped' }, whole({ minimum: 1 }), {
    note: 'it bounds calls of the server’s own tools, and this gateway has no such tools',
  }),
  truncation: field('OpenAI', { responses: 'refused' }, Type.Literal('disabled'), { note: 'all but `disabled`' }),
}

export const openAiFields = {
  ...ofAnswers,
  encoding_format: field(
    'OpenAI',
    { embeddings: 'carried' },
    Type.Union([Type.Literal('float'), Type.Literal('base64')]),
  ),
  dimensions: field('OpenAI', { embeddings: 'carried' }, whole({ minimum: 1, maximum: dimensionsMax })),
  ...ofRequests,
  ...ofResponses,
}
