/** Where a request comes in. What Ollama's clients say of the next token stands in their `options`. */
export const doors = ['chat', 'completions', 'embeddings', 'responses', 'messages', 'ollama'] as const
export type Door = (typeof doors)[number]

/**
 * What becomes of a field (§35). `carried`: the node gets it by its name. `mapped`: the node gets it in another form. `hint`: the gateway
 * reads it, and no node gets it. `refused`: the client gets an error. `dropped`: no node gets it.
 */
export type Fate = 'carried' | 'mapped' | 'hint' | 'refused' | 'dropped'

export interface Field {
  /** Who defines it. */
  readonly of: 'OpenAI' | 'Anthropic' | 'Ollama' | 'llama.cpp' | 'vLLM' | 'SGLang' | 'Penstock'
  /** A door that is absent has no such field. */
  readonly at: Partial<Readonly<Record<Door, Fate>>>
  /** The form in which a node gets it, or why it gets none. */
  readonly note?: string
  /** It is refused at these doors, which have a field of their own for it. */
  readonly instead?: Partial<Readonly<Record<Door, string>>>
}

const everywhere = { chat: 'carried', completions: 'carried', responses: 'carried', messages: 'carried' } as const
const carriedEverywhere = { ...everywhere, ollama: 'carried' } as const
const at = (fate: Fate): Field['at'] => Object.fromEntries(doors.map((door) => [door, fate]))

const named = (of: Field['of'], fates: Field['at'], names: string): Readonly<Record<string, Field>> =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, { of, at: fates }]))

/** A field of chat, and what other doors have in its place. */
const chatOnly = (carried: Field['at'], instead: NonNullable<Field['instead']>): Field => ({
  of: 'OpenAI',
  at: { ...carried, ...Object.fromEntries(Object.keys(instead).map((door) => [door, 'refused' as const])) },
  instead,
})

/**
 * Each field of a request beside its prompt, once. The readers of requests, docs/reference/fields.md and the test that sends each field
 * through each door follow from it. What the table lacks goes to the account's own nodes by its name (`unlisted.ts`).
 */
export const fields: Readonly<Record<string, Field>> = {
  ...named('OpenAI', carriedEverywhere, 'temperature top_p seed presence_penalty frequency_penalty'),
  stop: { of: 'OpenAI', at: carriedEverywhere },
  logit_bias: { of: 'OpenAI', at: everywhere },
  logprobs: {
    ...chatOnly({ chat: 'carried', completions: 'carried', ollama: 'mapped' }, { responses: 'include' }),
    note: 'Ollama: beside `options`',
  },
  top_logprobs: {
    of: 'OpenAI',
    at: { chat: 'carried', responses: 'mapped', ollama: 'mapped' },
    note: 'beside `options`; Responses: with `logprobs`',
  },
  n: {
    of: 'OpenAI',
    at: { chat: 'refused', completions: 'hint', responses: 'refused', messages: 'refused', ollama: 'refused' },
    note: 'beyond 1; completions: so many calls',
  },
  best_of: { of: 'OpenAI', at: { completions: 'mapped' }, note: 'so many calls, beyond `n` with `logprobs`' },
  max_tokens: chatOnly(
    { chat: 'carried', completions: 'carried', messages: 'carried' },
    { responses: 'max_output_tokens', ollama: 'options.num_predict' },
  ),
  max_completion_tokens: chatOnly(
    { chat: 'carried', completions: 'carried' },
    { responses: 'max_output_tokens', messages: 'max_tokens', ollama: 'options.num_predict' },
  ),
  response_format: chatOnly(
    { chat: 'carried', completions: 'carried' },
    { responses: 'text.format', messages: 'output_config.format', ollama: 'format' },
  ),
  verbosity: chatOnly({ chat: 'carried', messages: 'carried', ollama: 'carried' }, { responses: 'text.verbosity' }),
  reasoning_effort: chatOnly(
    { chat: 'carried', completions: 'carried' },
    { responses: 'reasoning.effort', messages: 'output_config.effort', ollama: 'think' },
  ),
  parallel_tool_calls: chatOnly(
    { chat: 'carried', responses: 'carried', ollama: 'carried' },
    { messages: 'tool_choice.disable_parallel_tool_use' },
  ),
  stream_options: {
    of: 'OpenAI',
    at: { chat: 'carried', completions: 'carried', responses: 'dropped', messages: 'dropped', ollama: 'dropped' },
    note: 'elsewhere a stream always ends with its usage',
  },
  ...named('OpenAI', { chat: 'carried', completions: 'carried' }, 'suffix echo'),
  ...named('OpenAI', { embeddings: 'carried' }, 'encoding_format dimensions'),
  ...named('OpenAI', at('dropped'), 'user safety_identifier store metadata service_tier'),
  client_metadata: { of: 'OpenAI', at: { responses: 'dropped' }, note: 'Codex sends it' },
  cache_control: { of: 'Anthropic', at: at('hint'), note: 'also in parts, messages and tools' },
  prompt_cache_key: { of: 'OpenAI', at: at('hint') },

  max_output_tokens: { of: 'OpenAI', at: { responses: 'mapped' }, note: '`max_tokens`' },
  reasoning: { of: 'OpenAI', at: { responses: 'mapped' }, note: '`reasoning_effort`' },
  text: { of: 'OpenAI', at: { responses: 'mapped' }, note: '`response_format`, `verbosity`' },
  instructions: { of: 'OpenAI', at: { responses: 'mapped' }, note: 'a system message' },
  ...named('OpenAI', { responses: 'refused' }, 'previous_response_id conversation background prompt'),
  include: {
    of: 'OpenAI',
    at: { responses: 'mapped' },
    note: '`message.output_text.logprobs` is `logprobs`; all but it and `reasoning.encrypted_content` is refused',
  },
  truncation: { of: 'OpenAI', at: { responses: 'refused' }, note: 'all but `disabled`' },

  stop_sequences: { of: 'Anthropic', at: { messages: 'mapped' }, note: '`stop`' },
  system: { of: 'Anthropic', at: { messages: 'mapped', ollama: 'mapped' }, note: 'a system message' },
  thinking: { of: 'Anthropic', at: { messages: 'mapped' }, note: 'the switch that the node’s kind has' },
  output_config: { of: 'Anthropic', at: { messages: 'mapped' }, note: '`reasoning_effort`, `response_format`' },
  ...named('Anthropic', { messages: 'refused' }, 'container mcp_servers thread'),
  ...named('Anthropic', { messages: 'dropped' }, 'betas anthropic_beta anthropic_version'),
  context_management: { of: 'Anthropic', at: { messages: 'refused' }, note: 'all but clearing thoughts' },

  num_predict: { of: 'Ollama', at: { ollama: 'mapped' }, note: '`max_tokens`' },
  format: { of: 'Ollama', at: { ollama: 'mapped' }, note: '`response_format`' },
  think: { of: 'Ollama', at: { ollama: 'mapped' }, note: 'the switch that the node’s kind has, or `reasoning_effort`' },
  keep_alive: { of: 'Ollama', at: { ollama: 'hint' } },
  ...named('Ollama', carriedEverywhere, 'tfs_z penalize_newline'),
  ...named(
    'Ollama',
    { ollama: 'dropped' },
    'num_ctx num_batch num_gpu main_gpu num_thread num_keep numa low_vram f16_kv logits_all vocab_only use_mmap use_mlock embedding_only truncate shift',
  ),

  ...named(
    'llama.cpp',
    carriedEverywhere,
    `top_k min_p typical_p top_n_sigma xtc_probability xtc_threshold dynatemp_range dynatemp_exponent repeat_penalty repeat_last_n
    dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers mirostat mirostat_tau mirostat_eta
    samplers grammar json_schema ignore_eos t_max_predict_ms min_keep`,
  ),
  ...named(
    'llama.cpp',
    everywhere,
    'chat_template_kwargs reasoning_format thinking_forced_open parse_tool_calls cache_prompt lora',
  ),
  ...named(
    'llama.cpp',
    { chat: 'carried', completions: 'carried' },
    'n_probs id_slot timings_per_token return_progress',
  ),

  ...named(
    'vLLM',
    carriedEverywhere,
    `repetition_penalty length_penalty min_tokens stop_token_ids include_stop_str_in_output skip_special_tokens
    spaces_between_special_tokens allowed_token_ids bad_words structured_outputs guided_json guided_regex guided_choice
    guided_grammar`,
  ),
  ...named('vLLM', everywhere, 'add_generation_prompt continue_final_message documents mm_processor_kwargs cache_salt'),
  ...named('vLLM', { ...everywhere, embeddings: 'carried' }, 'add_special_tokens truncate_prompt_tokens'),
  normalize: { of: 'vLLM', at: { embeddings: 'carried' } },
  embd_normalize: { of: 'llama.cpp', at: { embeddings: 'carried' } },
  ...named('SGLang', carriedEverywhere, 'regex ebnf no_stop_trim stop_regex'),
  ...named('SGLang', everywhere, 'separate_reasoning lora_path'),

  svc: { of: 'Penstock', at: at('hint') },
}

/** What beside those fields belongs to a request: its prompt, its tools, its model, and whether it is a stream. Ollama's differ by path. */
export const promptNames: Readonly<Record<Exclude<Door, 'ollama'>, readonly string[]>> = {
  chat: ['model', 'messages', 'tools', 'tool_choice', 'functions', 'function_call', 'stream'],
  completions: ['model', 'prompt', 'stream'],
  embeddings: ['model', 'input'],
  responses: ['model', 'input', 'tools', 'tool_choice', 'stream'],
  messages: ['model', 'messages', 'tools', 'tool_choice', 'stream'],
}

/** The names that have this fate at this door. */
export const namesOf = (door: Door, fate: Fate): ReadonlySet<string> =>
  new Set(Object.keys(fields).filter((name) => fields[name]?.at[door] === fate))
