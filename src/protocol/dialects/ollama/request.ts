import { Problem } from '../../../errors.ts'
import { contentFault } from '../../chat/fit-messages.ts'
import { given, isObject, type Json } from '../../json/json-object.ts'
import type { ChatRequest } from '../../wire/inference/chat.ts'
import type {
  OllamaChatRequest,
  OllamaGenerateRequest,
  OllamaMessage,
  OllamaOptions,
} from '../../wire/inference/ollama.ts'

import { type Thinking, thinkingAsked } from '../members/thinking.ts'
import { carriedBeside, carriedOptions, isOption, type Unlisted } from '../members/unlisted.ts'

type Message = ChatRequest['messages'][number] & Json

/** What of the options goes to a node. Those that load and run a model are its operator's. */
function chatOptions(options: OllamaOptions | null | undefined): Json & Unlisted {
  if (options == null) return {}
  const { num_predict: most } = options
  return { ...carriedOptions(options), ...(typeof most === 'number' && most > 0 ? { max_tokens: most } : {}) }
}

/** What the gateway itself says of vectors to a node. */
const ofVectors = ['input', 'encoding_format', 'dimensions']

/** Of a request for vectors, of which the next token's choice says nothing. */
export function embeddingExtras(beside: Json, options: OllamaOptions | null | undefined): Json & Unlisted {
  const taken = ofVectors.find((name) => options != null && Object.hasOwn(options, name))
  if (taken !== undefined) {
    const param = `options.${taken}`
    throw new Problem('invalid_request', { param, detail: `${param}: there is no such option` })
  }
  const said = Object.entries(options ?? {}).filter(([name]) => !isOption(name))
  return { ...carriedBeside(beside), ...carriedOptions(Object.fromEntries(said)) }
}

/** The body with those of its options in `options` that stand beside them, so that they are checked alike. `options` itself counts first. */
export function optionsTogether(body: Json): Json {
  const names = Object.keys(body).filter(isOption)
  const { options } = body
  if (names.length === 0 || (options != null && !isObject(options))) return body
  const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !isOption(name)))
  return {
    ...rest,
    options: { ...Object.fromEntries(names.map((name) => [name, body[name]])), ...(options as Json | null) },
  }
}

/** First characters of the base64 of each kind of picture; others are called what most are. */
const kinds: readonly (readonly [string, string])[] = [
  ['iVBOR', 'png'],
  ['R0lG', 'gif'],
  ['UklG', 'webp'],
]
const imageTypeOf = (base64: string) => kinds.find(([start]) => base64.startsWith(start))?.[1] ?? 'jpeg'

const pictureOf = (image: string): Json => ({
  type: 'image_url',
  image_url: { url: `data:image/${imageTypeOf(image)};base64,${image}` },
})

function contentOf(text: string, images: readonly string[] | null | undefined): unknown {
  return images == null || images.length === 0 ? text : [{ type: 'text', text }, ...images.map(pictureOf)]
}

interface OpenCall {
  readonly id: string
  readonly name: string
}

/** Ollama's calls need no id, and their results name the tool: each result belongs to the first open call that fits. */
class Conversation {
  private open: OpenCall[] = []
  /** Of tools: they follow the results as the user's, where templates look for them. */
  private pictures: Json[] = []

  private *shown(): Generator<Message> {
    if (this.pictures.length > 0) yield { role: 'user', content: this.pictures }
    this.pictures = []
  }

  *messages(all: readonly OllamaMessage[]): Generator<Message> {
    for (const [at, message] of all.entries()) {
      const fault = contentFault(message, at)
      if (fault !== null) throw fault
      if (message.role !== 'tool') yield* this.shown()
      yield this.message(message, at)
    }
    yield* this.shown()
  }

  private message({ role, content, images, tool_calls: calls, ...more }: OllamaMessage, at: number): Message {
    if (role === 'tool') {
      this.pictures.push(...(images ?? []).map(pictureOf))
      return { role, tool_call_id: this.answered(more), content: content ?? '' }
    }
    const said = contentOf(content ?? '', images)
    if (role !== 'assistant' || calls == null || calls.length === 0) return { role, content: said } as Message
    const named = calls.map(({ id, function: { name, arguments: input } }, index) => ({
      id: id || `call_${at}_${index}`,
      type: 'function',
      function: { name, arguments: JSON.stringify(input ?? {}) },
    }))
    this.open = named.map(({ id, function: { name } }) => ({ id, name }))
    return { role, content: content === '' || content == null ? null : said, tool_calls: named }
  }

  private answered({ tool_call_id: id, tool_name: name }: Omit<OllamaMessage, 'role'>): string {
    if (id) return id
    const call = this.open.find((candidate) => candidate.name === name) ?? this.open[0]
    this.open = this.open.filter((candidate) => candidate !== call)
    return call?.id ?? 'call_0'
  }
}

function formatOf(format: OllamaChatRequest['format']): Json {
  if (format == null || format === '') return {}
  if (format === 'json') return { response_format: { type: 'json_object' } }
  return { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: format, strict: true } } }
}

/** Servers agree on a word for how much. Whether at all is switched by the node's kind. */
function thinking(think: OllamaChatRequest['think']): Thinking & { readonly reasoning_effort?: string } {
  if (think == null) return {}
  return typeof think === 'string' ? { reasoning_effort: think } : thinkingAsked(think)
}

type Generating = Pick<
  OllamaChatRequest,
  'model' | 'models' | 'stream' | 'options' | 'format' | 'think' | 'keep_alive' | 'logprobs' | 'top_logprobs' | 'svc'
>

/** `asked`: without what its path alone takes. */
function chatOf(asked: Generating, messages: Message[]): ChatRequest {
  const { model, stream, options, format, think, keep_alive: _, logprobs, top_logprobs: top, ...rest } = asked
  const { models, svc, ...more } = rest
  const { name: _alias, prompt_cache_key: key, metadata, ...beside } = more as Json
  return {
    ...carriedBeside(beside),
    ...chatOptions(options),
    model,
    messages,
    stream: stream !== false,
    ...formatOf(format),
    ...thinking(think),
    ...(logprobs === true ? { logprobs, ...(top == null ? {} : { top_logprobs: top }) } : {}),
    // For placement alone: no node gets it.
    ...given({ prompt_cache_key: key, models, metadata }),
    ...(svc === undefined ? {} : { svc }),
  }
}

/** Converts a request to `/api/chat` to a chat (§28). */
export function chatOfOllama({ messages: said, tools, ...asked }: OllamaChatRequest): ChatRequest {
  const messages = [...new Conversation().messages(said ?? [])]
  return { ...chatOf(asked, messages), ...(tools == null || tools.length === 0 ? {} : { tools }) }
}

/** Names of `/api/generate` that an operation refuses, or that say nothing. */
type Refused = 'raw' | 'suffix' | 'template' | 'context' | 'width' | 'height' | 'steps'

/** The same of one to `/api/generate`: a prompt is a message. Throws a `Problem` for what no chat can carry. */
export function chatOfPrompt(request: OllamaGenerateRequest & { readonly [name in Refused]?: unknown }): ChatRequest {
  const { prompt, system, images, raw: _, suffix, template, context, width, height, steps, ...asked } = request
  const nothing = (prompt == null || prompt === '') && (images == null || images.length === 0)
  const messages: Message[] = nothing ? [] : [{ role: 'user', content: contentOf(prompt ?? '', images) }]
  if (!nothing && system != null && system !== '') messages.unshift({ role: 'system', content: system })
  return chatOf(asked, messages)
}

/** Of a time like `5m`, `-1` or a number of seconds: whether the model is to leave the memory at once. */
export const unloads = (keepAlive: OllamaChatRequest['keep_alive']): boolean =>
  keepAlive != null && /^0+(?:\.0+)?(?:ms|[smh])?$/.test(String(keepAlive))
