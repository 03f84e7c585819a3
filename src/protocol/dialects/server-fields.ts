import { Type } from '@sinclair/typebox'
import { alike, carriedEverywhere, everywhere, field, ofTexts } from './field.ts'
import { flag, list, number, object, text, texts, tokenIds, whole } from './values.ts'

const share = { minimum: 0, maximum: 1 } as const
const llama = 'llama.cpp'
const textOrObject = Type.Union([text(), object()])

const reporting = { ...ofTexts, responses: 'carried' } as const

/** llama.cpp's. Many of its numbers have a value that switches them off, and so no bound here. */
const ofLlama = {
  top_k: field(llama, carriedEverywhere, whole(), { valueAt: { messages: whole({ minimum: 0 }) } }),
  ...alike(['min_p', 'typical_p'], field(llama, carriedEverywhere, number(share), { valueAt: { ollama: number() } })),
  top_n_sigma: field(llama, carriedEverywhere, number({}, 'below 0: off')),
  ...alike(['xtc_probability', 'xtc_threshold'], field(llama, carriedEverywhere, number(share))),
  ...alike(['dynatemp_range', 'dynatemp_exponent'], field(llama, carriedEverywhere, number())),
  repeat_penalty: field(llama, carriedEverywhere, number()),
  repeat_last_n: field(llama, carriedEverywhere, whole({}, '-1: the whole context')),
  ...alike(['dry_multiplier', 'dry_base'], field(llama, carriedEverywhere, number())),
  dry_allowed_length: field(llama, carriedEverywhere, whole()),
  dry_penalty_last_n: field(llama, carriedEverywhere, whole({}, '-1: the whole context')),
  dry_sequence_breakers: field(llama, carriedEverywhere, texts()),
  mirostat: field(llama, carriedEverywhere, whole({ minimum: 0, maximum: 2 }), { valueAt: { ollama: whole() } }),
  ...alike(['mirostat_tau', 'mirostat_eta'], field(llama, carriedEverywhere, number())),
  samplers: field(llama, carriedEverywhere, Type.Union([texts(), text()], { description: 'in their order' })),
  grammar: field(llama, carriedEverywhere, text('GBNF')),
  json_schema: field(llama, carriedEverywhere, object()),
  ignore_eos: field(llama, carriedEverywhere, flag()),
  t_max_predict_ms: field(llama, carriedEverywhere, whole({}, 'milliseconds')),
  min_keep: field(llama, carriedEverywhere, whole({ minimum: 0 })),
  chat_template_kwargs: field(llama, everywhere, object('what the template of the model is told')),
  reasoning_format: field(llama, everywhere, text('`none`, `auto`, `deepseek` or `deepseek-legacy`')),
  ...alike(['thinking_forced_open', 'parse_tool_calls', 'cache_prompt'], field(llama, everywhere, flag())),
  lora: field(llama, everywhere, list(object(), 'adapters by `id` and `scale`')),
  n_probs: field(llama, ofTexts, whole({ minimum: 0 })),
  id_slot: field(llama, ofTexts, whole({ minimum: -1 })),
  timings_per_token: field(llama, reporting, flag('`timings` in the answer, on Responses in a stream, from own nodes')),
  return_progress: field(llama, reporting, flag('`prompt_progress` in a stream, from own nodes')),
}

const ofVllm = {
  repetition_penalty: field('vLLM', carriedEverywhere, number({ exclusiveMinimum: 0 })),
  length_penalty: field('vLLM', carriedEverywhere, number()),
  min_tokens: field('vLLM', carriedEverywhere, whole({ minimum: 0 })),
  ...alike(['stop_token_ids', 'allowed_token_ids'], field('vLLM', carriedEverywhere, tokenIds())),
  ...alike(
    ['include_stop_str_in_output', 'skip_special_tokens', 'spaces_between_special_tokens'],
    field('vLLM', carriedEverywhere, flag()),
  ),
  bad_words: field('vLLM', carriedEverywhere, texts()),
  structured_outputs: field('vLLM', carriedEverywhere, object()),
  guided_json: field('vLLM', carriedEverywhere, textOrObject),
  ...alike(['guided_regex', 'guided_grammar'], field('vLLM', carriedEverywhere, text())),
  guided_choice: field('vLLM', carriedEverywhere, texts()),
  ...alike(['add_generation_prompt', 'continue_final_message'], field('vLLM', everywhere, flag())),
  documents: field('vLLM', everywhere, list(object())),
  mm_processor_kwargs: field('vLLM', everywhere, object()),
  cache_salt: field('vLLM', everywhere, text()),
  add_special_tokens: field('vLLM', { ...everywhere, embeddings: 'carried' }, flag()),
  truncate_prompt_tokens: field('vLLM', { ...everywhere, embeddings: 'carried' }, whole({ minimum: -1 })),
  normalize: field('vLLM', { embeddings: 'carried' }, flag()),
}

const ofSglang = {
  ...alike(['regex', 'ebnf'], field('SGLang', carriedEverywhere, text())),
  no_stop_trim: field('SGLang', carriedEverywhere, flag()),
  stop_regex: field('SGLang', carriedEverywhere, Type.Union([text(), texts()])),
  separate_reasoning: field('SGLang', everywhere, flag()),
  lora_path: field('SGLang', everywhere, Type.Union([text(), texts()])),
}

/** What model servers have beyond the interfaces that they share. */
export const serverFields = {
  ...ofLlama,
  ...ofVllm,
  embd_normalize: field(llama, { embeddings: 'carried' }, whole({ minimum: -1 })),
  ...ofSglang,
}
