import { type TSchema, Type } from '@sinclair/typebox'
import { alike, at, carriedEverywhere, field } from './field.ts'
import {
  anything,
  flag,
  list,
  modelName,
  models,
  modelsMax,
  number,
  object,
  shortText,
  text,
  texts,
  tokensOfOllama,
  whole,
} from './values.ts'

const open = { additionalProperties: true } as const
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))
/** Blocks of one message, and stop sequences: more are no request of a person or an agent. */
const blocksMax = 10_000
const stopsMax = 64

/** What a block of this type must have is said where it is translated. */
const Block = Type.Object({ type: Type.String({ maxLength: 64 }) }, open)
/** The content of a message of Messages. */
export const blocksOrText = Type.Union([Type.String(), Type.Array(Block, { maxItems: blocksMax })])

const OutputFormat = Type.Object({ type: Type.Literal('json_schema'), schema: Type.Object({}, open) }, open)
const OutputConfig = Type.Object({ effort: orNull(shortText(16)), format: orNull(OutputFormat) }, open)

export const anthropicFields = {
  cache_control: field('Anthropic', at('hint'), object(), { note: 'also in parts, messages and tools' }),
  stop_sequences: field('Anthropic', { messages: 'mapped' }, Type.Array(Type.String(), { maxItems: stopsMax }), {
    note: '`stop`',
  }),
  system: field('Anthropic', { messages: 'mapped', ollama: 'mapped' }, blocksOrText, {
    note: 'a system message',
    valueAt: { ollama: text() },
  }),
  thinking: field('Anthropic', { messages: 'mapped' }, Type.Object({ type: Type.String({ maxLength: 64 }) }, open), {
    note: 'the switch that the node’s kind has',
  }),
  output_config: field('Anthropic', { messages: 'mapped' }, OutputConfig, {
    note: '`reasoning_effort`, `response_format`',
  }),
  output_format: field('Anthropic', { messages: 'mapped' }, OutputFormat, {
    note: '`response_format`; the older name of `output_config.format`',
  }),
  container: field('Anthropic', { messages: 'refused' }, text()),
  mcp_servers: field('Anthropic', { messages: 'refused' }, list(object())),
  thread: field('Anthropic', { messages: 'refused' }, anything()),
  ...alike(['betas', 'anthropic_beta'], field('Anthropic', { messages: 'dropped' }, texts())),
  anthropic_version: field('Anthropic', { messages: 'dropped' }, text()),
  context_management: field('Anthropic', { messages: 'refused', responses: 'refused' }, object(), {
    note: 'all but clearing thoughts',
    valueAt: { responses: list(object()) },
  }),
  compaction: field('Anthropic', { messages: 'refused' }, object()),
  inference_geo: field('Anthropic', { messages: 'refused' }, text(), { note: 'all but `global`' }),
  billing_policy: field('Anthropic', { messages: 'refused' }, object(), { note: 'all but `"bill_to": "self"`' }),
  speed: field('Anthropic', { messages: 'dropped' }, text('`standard` or `fast`')),
  diagnostics: field('Anthropic', { messages: 'dropped' }, object(), { note: 'the answer has none' }),
  fallback_credit_token: field('Anthropic', { messages: 'dropped' }, Type.Union([text(), object()])),
}

const loaded = { ollama: 'dropped' } as const

export const ollamaFields = {
  num_predict: field('Ollama', { ollama: 'mapped' }, tokensOfOllama, { note: '`max_tokens`' }),
  format: field('Ollama', { ollama: 'mapped' }, Type.Union([Type.Literal(''), Type.Literal('json'), object()]), {
    note: '`response_format`',
  }),
  think: field('Ollama', { ollama: 'mapped' }, Type.Union([flag(), shortText(16)]), {
    note: 'the switch that the node’s kind has, or `reasoning_effort`',
  }),
  keep_alive: field('Ollama', { ollama: 'hint' }, Type.Union([shortText(32), Type.Number()])),
  tfs_z: field('Ollama', carriedEverywhere, number()),
  penalize_newline: field('Ollama', carriedEverywhere, flag()),
  ...alike(['num_ctx', 'num_batch', 'num_gpu', 'main_gpu', 'num_thread', 'num_keep'], field('Ollama', loaded, whole())),
  ...alike(
    ['numa', 'low_vram', 'f16_kv', 'logits_all', 'vocab_only', 'use_mmap', 'use_mlock', 'embedding_only', 'shift'],
    field('Ollama', loaded, flag()),
  ),
  truncate: field('Ollama', { ollama: 'dropped', rerank: 'carried' }, flag(), {
    note: 'rerank: in the place of the true that Text Embeddings Inference gets',
  }),
}

/** Of rankings, as Cohere, Jina and their servers have them. */
export const rankingFields = {
  top_n: field(
    'Cohere',
    { rerank: 'hint' },
    whole({ minimum: 1 }, 'The default and the highest value are the number of documents'),
  ),
  return_documents: field('Cohere', { rerank: 'hint' }, flag('Default: false')),
  rank_fields: field('Cohere', { rerank: 'refused' }, texts(), { note: 'all but `["text"]`' }),
  ...alike(['max_tokens_per_doc', 'max_chunks_per_doc'], field('Cohere', { rerank: 'refused' }, whole())),
  texts: field('TEI', { rerank: 'refused' }, texts(), { instead: { rerank: 'documents' } }),
  raw_scores: field('TEI', { rerank: 'refused' }, flag(), { note: 'all but false: scores are in 0–1' }),
  ...alike(
    ['activation', 'use_activation'],
    field('vLLM', { rerank: 'refused' }, flag(), { note: 'all but true: scores are in 0–1' }),
  ),
}

/** Of a request to several models, as OpenRouter has it. */
const ofFallbacks = {
  models: field('OpenRouter', at('hint'), models('tried in their order, behind `model`, until one answers')),
  fallbacks: field(
    'OpenRouter',
    { messages: 'hint' },
    Type.Array(Type.Object({ model: modelName }), {
      maxItems: modelsMax,
      description: '`models`, each by its `model`',
    }),
  ),
}

export const ownFields = { ...ofFallbacks, svc: field('Penstock', at('hint'), object()) }
