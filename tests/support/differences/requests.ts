type Json = Readonly<Record<string, unknown>>

/** The server of the purpose gets the request, and so does the gateway before it. */
export interface Compared {
  readonly name: string
  readonly path: string
  readonly purpose: 'chat' | 'embed' | 'rank'
  readonly body: Json
}

const few = { temperature: 0, max_tokens: 6 }
const messages = [{ role: 'user', content: 'the a of and' }]
const words = 'the a of and'
const schema = { type: 'object', properties: { a: { type: 'boolean' } }, required: ['a'], additionalProperties: false }
const parameters = { type: 'object', properties: { b: { type: 'boolean' } }, required: ['b'] }
const tool = { type: 'function', function: { name: 'look', description: 'Looks', parameters } }

/** What llama.cpp's own samplers take beside OpenAI's fields, each with a value that changes what is written. */
const samplers: Readonly<Record<string, Json>> = {
  seed: { seed: 7, temperature: 1.5 },
  top_k: { top_k: 2, seed: 1, temperature: 2 },
  top_p: { top_p: 0.2, seed: 1, temperature: 2 },
  min_p: { min_p: 0.5, seed: 1, temperature: 2 },
  typical_p: { typical_p: 0.3, seed: 1, temperature: 2 },
  'xtc and dry': { xtc_probability: 0.9, xtc_threshold: 0.01, dry_multiplier: 2, seed: 1, temperature: 2 },
  'dynamic temperature': { dynatemp_range: 1, dynatemp_exponent: 2, seed: 1, temperature: 2 },
  mirostat: { mirostat: 2, mirostat_tau: 2, mirostat_eta: 0.3, seed: 1 },
  'order of samplers': { samplers: ['top_k', 'temperature'], top_k: 3, seed: 1, temperature: 2 },
  penalties: { presence_penalty: 1.5, frequency_penalty: 1.5 },
  'repeat penalty': { repeat_penalty: 1.9, repeat_last_n: 32 },
  'logit bias by text': { logit_bias: [[' the', 100]] },
  'logit bias by token': { logit_bias: { '262': 100 } },
  'ignore the end': { ignore_eos: true },
  stops: { stop: [' a', 'b'] },
  'one stop': { stop: 'b' },
  top_n_sigma: { top_n_sigma: 0.5, seed: 1, temperature: 2 },
  'least kept': { min_p: 0.9, min_keep: 3, seed: 1, temperature: 2 },
  adapters: { lora: [] },
  grammar: { grammar: 'root ::= "yes" | "no"' },
  'its own limit': { max_tokens: undefined, n_predict: 3 },
  'time limit': { t_max_predict_ms: 60_000 },
  'no cache': { cache_prompt: false },
  'slot and kept tokens': { id_slot: 0, n_keep: 4 },
}

const chats: Readonly<Record<string, Json>> = {
  ...samplers,
  plain: {},
  'a system message and turns': {
    messages: [
      { role: 'system', content: 'on it' },
      { role: 'user', content: 'the' },
      { role: 'assistant', content: 'a of' },
      { role: 'user', content: 'and' },
    ],
  },
  'content in parts': { messages: [{ role: 'user', content: [{ type: 'text', text: 'the a' }] }] },
  max_completion_tokens: { max_tokens: undefined, max_completion_tokens: 3 },
  logprobs: { logprobs: true, top_logprobs: 2 },
  'probabilities after sampling': {
    logprobs: true,
    top_logprobs: 2,
    post_sampling_probs: true,
    temperature: 1,
    seed: 1,
  },
  'JSON of a schema': { max_tokens: 40, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } },
  'JSON of its own schema member': { max_tokens: 40, response_format: { type: 'json_object', schema } },
  'a schema at the top': { max_tokens: 40, json_schema: schema },
  'tools, none of which is to be called': { tools: [tool], tool_choice: 'none' },
  'a tool that must be called': { max_tokens: 80, tools: [tool], tool_choice: 'required', parallel_tool_calls: false },
  'template members': { chat_template_kwargs: { enable_thinking: false } },
  'format of thoughts': { reasoning_format: 'none' },
  'an answer that goes on': { messages: [...messages, { role: 'assistant', content: 'it is' }] },
  'no prompt of generation': { add_generation_prompt: false },
  'probabilities by its own name': { n_probs: 2 },
  'parsing of calls': { parse_tool_calls: false },
  'all that it knows': { verbose: true },
  'some members alone': { response_fields: ['content'] },
  'the tokens too': { return_tokens: true },
  'times of each token': { timings_per_token: true },
  'what OpenAI alone knows': { user: 'somebody', metadata: { a: 'b' }, store: false, service_tier: 'auto' },
  'nothing to say': { messages: [] },
  'a wrong type': { temperature: 'hot' },
  'a grammar that is none': { grammar: 'root ::=' },
  'a role that is none': { messages: [{ role: 'dog', content: 'wow' }] },
}

const completions: Readonly<Record<string, Json>> = {
  ...samplers,
  plain: {},
  tokens: { prompt: [262, 263, 264] },
  echo: { echo: true },
  logprobs: { logprobs: 2 },
  n_probs: { n_probs: 2 },
  'the tokens too': { return_tokens: true },
  'a schema at the top': { max_tokens: 40, json_schema: schema },
}

const responses: Readonly<Record<string, Json>> = {
  plain: {},
  instructions: { instructions: 'on it' },
  'items of input': { input: [{ role: 'user', content: [{ type: 'input_text', text: words }] }] },
  sampling: { temperature: 1.5, top_p: 0.5, seed: 7 },
  'a grammar': { grammar: 'root ::= "yes" | "no"' },
  'times of each token': { timings_per_token: true },
  'progress of the prompt': { return_progress: true },
  'a tool that must be called': {
    max_output_tokens: 80,
    tools: [{ type: 'function', name: 'look', description: 'Looks', parameters, strict: false }],
    tool_choice: 'required',
  },
}

const anthropic: Readonly<Record<string, Json>> = {
  plain: {},
  system: { system: 'on it' },
  'system in blocks': { system: [{ type: 'text', text: 'on it' }] },
  sampling: { temperature: 1.5, top_p: 0.5, top_k: 3, seed: 7 },
  'stop sequences': { stop_sequences: [' a', 'b'] },
  'a grammar': { grammar: 'root ::= "yes" | "no"' },
  'a tool that must be called': {
    max_tokens: 80,
    tools: [{ name: 'look', description: 'Looks', input_schema: parameters }],
    tool_choice: { type: 'any' },
  },
}

const embeddings: Readonly<Record<string, Json>> = {
  'one text': { input: words },
  texts: { input: [words, 'in on'] },
  tokens: { input: [262, 263] },
  base64: { input: words, encoding_format: 'base64' },
  'its normalisation': { input: words, embd_normalize: 1 },
  nothing: { input: [] },
}

const rankings: Readonly<Record<string, Json>> = {
  plain: {},
  'the best alone': { top_n: 1 },
  'no documents': { documents: [] },
}

const cases = (path: string, purpose: Compared['purpose'], base: Json, of: Readonly<Record<string, Json>>) =>
  Object.entries(of).map(([name, change]): Compared => {
    const body = Object.fromEntries(Object.entries({ ...base, ...change }).filter(([, value]) => value !== undefined))
    return { name, path, purpose, body }
  })
const streamed = (compared: readonly Compared[]) =>
  compared.map((each): Compared => ({ ...each, name: `${each.name}, streamed`, body: { ...each.body, stream: true } }))
const both = (compared: readonly Compared[]) => [...compared, ...streamed(compared)]

/** Every request, on each dialect that llama.cpp speaks. */
export const comparedRequests: readonly Compared[] = [
  ...both(cases('/v1/chat/completions', 'chat', { messages, ...few }, chats)),
  ...cases(
    '/v1/chat/completions',
    'chat',
    { messages, ...few, stream: true },
    {
      'usage of a stream': { stream_options: { include_usage: true } },
      'progress of a stream': { return_progress: true },
    },
  ),
  ...both(cases('/v1/completions', 'chat', { prompt: words, ...few }, completions)),
  ...both(cases('/v1/responses', 'chat', { input: words, temperature: 0, max_output_tokens: 6 }, responses)),
  ...both(cases('/v1/messages', 'chat', { messages, ...few }, anthropic)),
  ...cases('/v1/embeddings', 'embed', {}, embeddings),
  ...cases('/v1/rerank', 'rank', { query: words, documents: ['the a of', 'in on as', 'and to in is it'] }, rankings),
]
