import { Problem } from '../../../errors.ts'
import { contentFault } from '../../chat/fit-messages.ts'
import type { Json } from '../../json/json-object.ts'
import type { ChatRequest } from '../../wire/inference/chat.ts'
import type {
  OllamaChatRequest,
  OllamaGenerateRequest,
  OllamaMessage,
  OllamaOptions,
} from '../../wire/inference/ollama.ts'

import { namesOf } from '../fields.ts'
import { type Thinking, thinkingAsked } from '../thinking.ts'

type Message = ChatRequest['messages'][number] & Json

const invalid = (param: string, detail: string) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })

/** Options that load and run a model. The server's operator sets those, so the gateway drops them. */
const loading = namesOf('ollama', 'dropped')
/** What chooses the next token. Nodes know them by these names, or say that they do not. */
const sampling = namesOf('ollama', 'carried')

/** Refuses unknown options, and names them. */
export function chatOptions(options: OllamaOptions | null | undefined): Json {
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === null || loading.has(name)) continue
    if (sampling.has(name)) out[name] = value
    else if (name !== 'num_predict') throw invalid(`options.${name}`, 'there is no such option')
    else if (typeof value === 'number' && value > 0) out.max_tokens = value
  }
  return out
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
  'model' | 'stream' | 'options' | 'format' | 'think' | 'logprobs' | 'top_logprobs' | 'svc'
>

function chatOf(asked: Generating, messages: Message[]): ChatRequest {
  const { model, stream, options, format, think, logprobs, top_logprobs: top, svc } = asked
  return {
    model,
    messages,
    stream: stream !== false,
    ...chatOptions(options),
    ...formatOf(format),
    ...thinking(think),
    ...(logprobs === true ? { logprobs, ...(top == null ? {} : { top_logprobs: top }) } : {}),
    ...(svc === undefined ? {} : { svc }),
  }
}

/** Converts a request to `/api/chat` to a chat (§28). */
export function chatOfOllama(asked: OllamaChatRequest): ChatRequest {
  const messages = [...new Conversation().messages(asked.messages ?? [])]
  const { tools } = asked
  return { ...chatOf(asked, messages), ...(tools == null || tools.length === 0 ? {} : { tools }) }
}

/** The same of one to `/api/generate`: a prompt is a message. Throws a `Problem` for what no chat can carry. */
export function chatOfPrompt(asked: OllamaGenerateRequest): ChatRequest {
  const { prompt, system, images } = asked
  const nothing = (prompt == null || prompt === '') && (images == null || images.length === 0)
  const messages: Message[] = nothing ? [] : [{ role: 'user', content: contentOf(prompt ?? '', images) }]
  if (!nothing && system != null && system !== '') messages.unshift({ role: 'system', content: system })
  return chatOf(asked, messages)
}

/** Of a time like `5m`, `-1` or a number of seconds: whether the model is to leave the memory at once. */
export const unloads = (keepAlive: OllamaChatRequest['keep_alive']): boolean =>
  keepAlive != null && /^0+(?:\.0+)?(?:ms|[smh])?$/.test(String(keepAlive))
