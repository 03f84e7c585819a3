import { Problem } from '../../../errors.ts'
import { isMarked, markedMessages } from '../../chat/cache-hints.ts'
import { given, isObject, type Json } from '../../json/json-object.ts'
import type { ChatRequest } from '../../wire/inference/chat.ts'
import type { MessagesRequest } from '../../wire/inference/messages.ts'
import { type Thinking, thinkingAsked } from '../members/thinking.ts'
import { carriedOf } from '../members/unlisted.ts'
import { clientTool } from './client-tools.ts'
import { wholeTurns } from './whole-turns.ts'

type ChatMessages = ChatRequest['messages']
type Message = ChatMessages[number] & Json

const invalid = (param: string, detail: string) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })
const unsupported = (at: string) =>
  new Problem('unsupported_input', { param: `${at}.type`, detail: `${at}: no node takes blocks of this type here` })

/**
 * Refuses services that only Anthropic's own servers offer. The table drops hints (`metadata`, `service_tier`, `betas`).
 */
function refuseServices(asked: Json): void {
  if (asked.thread != null) {
    throw new Problem('responses_not_stored', {
      param: 'thread',
      detail: 'thread: this gateway keeps no conversations; send all of it each time',
    })
  }
  for (const name of ['container', 'mcp_servers']) {
    const value = asked[name]
    if (value == null || (Array.isArray(value) && value.length === 0)) continue
    throw invalid(name, 'this gateway runs nothing for its clients')
  }
  if (asked.compaction != null) throw invalid('compaction', 'this gateway makes no summary of a conversation')
  if ((asked.inference_geo ?? 'global') !== 'global') throw invalid('inference_geo', 'this gateway knows no regions')
  const { billing_policy: billing } = asked
  if (billing != null && !(isObject(billing) && (billing.bill_to ?? 'self') === 'self')) {
    throw invalid('billing_policy', 'the account of the key pays')
  }
  const edits = isObject(asked.context_management) ? asked.context_management.edits : undefined
  if (!Array.isArray(edits)) return
  // Thinking never reaches a node, so that it is cleared whatever is asked.
  const done = (edit: unknown) => isObject(edit) && String(edit.type).startsWith('clear_thinking')
  if (!edits.every(done)) throw invalid('context_management', 'this gateway keeps no context that it could edit')
}

function textOf(block: Json, at: string): string {
  if (typeof block.text !== 'string') throw invalid(`${at}.text`, 'a text block has a text')
  return block.text
}

function imagePart({ source }: Json, at: string): Json {
  if (isObject(source)) {
    if (source.type === 'url' && typeof source.url === 'string')
      return { type: 'image_url', image_url: { url: source.url } }
    if (source.type === 'base64' && typeof source.data === 'string' && typeof source.media_type === 'string') {
      return { type: 'image_url', image_url: { url: `data:${source.media_type};base64,${source.data}` } }
    }
  }
  throw invalid(`${at}.source`, 'an image is base64 with its media type, or a URL')
}

/** A part of a user's message or of a tool's result. */
function partOf(block: Json, at: string): Json {
  if (block.type === 'text') return { type: 'text', text: textOf(block, at) }
  if (block.type === 'image') return imagePart(block, at)
  const { source } = block
  if (block.type === 'document' && isObject(source) && source.type === 'text' && typeof source.data === 'string') {
    return { type: 'text', text: source.data }
  }
  throw unsupported(at)
}

/** Plain text where there is nothing else: some servers' templates take nothing else. */
function contentOf(parts: readonly Json[]): unknown {
  return parts.every(({ type }) => type === 'text') ? parts.map(({ text }) => text).join('\n\n') : parts
}

const blocksOf = (content: unknown): readonly Json[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : ((content as readonly Json[] | undefined) ?? [])

/** A tool's result is a message of its own; its pictures follow as the user's, where templates look for them. */
function toolResult(block: Json, at: string): { readonly message: Message; readonly images: readonly Json[] } {
  if (typeof block.tool_use_id !== 'string') throw invalid(`${at}.tool_use_id`, 'a tool result names its call')
  if (block.content !== undefined && typeof block.content !== 'string' && !Array.isArray(block.content)) {
    throw invalid(`${at}.content`, 'text or blocks')
  }
  const parts = blocksOf(block.content).map((part, index) => partOf(part ?? {}, `${at}.content[${index}]`))
  const text = parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n')
  const content = block.is_error === true ? `Error: ${text}` : text
  return {
    message: { role: 'tool', tool_call_id: block.tool_use_id, content },
    images: parts.filter(({ type }) => type !== 'text'),
  }
}

function* userMessages(blocks: readonly Json[], at: string): Generator<Message> {
  const parts: Json[] = []
  for (const [index, block] of blocks.entries()) {
    const here = `${at}.content[${index}]`
    if (block.type === 'tool_result') {
      const { message, images } = toolResult(block, here)
      yield message
      parts.push(...images)
    } else parts.push(partOf(block, here))
  }
  if (parts.length > 0) yield { role: 'user', content: contentOf(parts) }
}

function toolCall(block: Json, at: string): Json {
  const { id, name, input } = block
  if (typeof id !== 'string' || typeof name !== 'string') throw invalid(at, 'a tool use has an id and a name')
  return { id, type: 'function', function: { name, arguments: JSON.stringify(input ?? {}) } }
}

const thoughts: ReadonlySet<unknown> = new Set(['thinking', 'redacted_thinking'])

function assistantMessage(blocks: readonly Json[], at: string): Message {
  const texts: string[] = []
  const calls: Json[] = []
  for (const [index, block] of blocks.entries()) {
    const here = `${at}.content[${index}]`
    if (thoughts.has(block.type)) continue
    if (block.type === 'tool_use') calls.push(toolCall(block, here))
    else if (block.type === 'image') throw unsupported(here)
    else texts.push(String(partOf(block, here).text))
  }
  const content = texts.length === 0 && calls.length > 0 ? null : texts.join('')
  return { role: 'assistant', content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
}

function systemText(content: unknown, at: string): string {
  const parts = blocksOf(content).map((block, index) => {
    if (block.type !== 'text') throw invalid(`${at}[${index}].type`, 'a system prompt is text')
    return textOf(block, `${at}[${index}]`)
  })
  return parts.join('\n\n')
}

function* chatMessages({ system, messages }: Pick<MessagesRequest, 'system' | 'messages'>): Generator<Message> {
  const prompt = systemText(system, 'system')
  if (prompt !== '') yield { role: 'system', content: prompt }
  for (const [index, { role, content }] of messages.entries()) {
    const at = `messages[${index}]`
    if (role === 'system') yield { role, content: systemText(content, `${at}.content`) }
    else if (role === 'assistant') yield assistantMessage(blocksOf(content), at)
    else yield* userMessages(blocksOf(content), at)
  }
}

function toolOf(tool: NonNullable<MessagesRequest['tools']>[number], index: number): Json {
  const { name, type, description, input_schema: parameters, strict } = tool
  if (type != null && type !== 'custom') {
    const ofClient = clientTool(type, tool)
    if (ofClient !== null) return ofClient
    const detail = `tools[${index}]: this gateway runs no tools of its own; only tools with an input_schema and those that its clients run (bash, text editor, memory) can be used`
    throw new Problem('tool_not_supported', { param: `tools[${index}].type`, detail })
  }
  if (parameters === undefined) throw invalid(`tools[${index}].input_schema`, 'a tool has a schema')
  return { type: 'function', function: { name, ...given({ description, parameters, strict }) } }
}

function toolChoice({ type, name }: NonNullable<MessagesRequest['tool_choice']>): unknown {
  if (type !== 'tool') return type === 'any' ? 'required' : type
  if (name === undefined) throw invalid('tool_choice.name', 'the tool that must be used')
  return { type: 'function', function: { name } }
}

const efforts: ReadonlyMap<string, string> = new Map([
  ['low', 'low'],
  ['medium', 'medium'],
  ['high', 'high'],
  ['xhigh', 'high'],
  ['max', 'high'],
])

function formatOf({ output_config: config, output_format: older }: MessagesRequest): Json {
  const effort = config?.effort
  const format = config?.format ?? older
  const known = effort == null ? undefined : efforts.get(effort)
  return {
    ...(known === undefined ? {} : { reasoning_effort: known }),
    ...(format == null
      ? {}
      : {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'answer', schema: format.schema, strict: true },
          },
        }),
  }
}

/** Any other type, as `adaptive`, leaves it to the model, whose own default stands. */
function thinking({ thinking: asked }: MessagesRequest): Thinking {
  return thinkingAsked(asked?.type === 'enabled' ? true : asked?.type === 'disabled' ? false : null)
}

/** The number of chat messages before the client's first cache mark; null without a mark. */
function marked({ system, messages, tools }: MessagesRequest): number | null {
  if (tools?.some(isMarked)) return 0
  const systems = Array.isArray(system) && system.some(isMarked) ? [] : null
  const at = messages.findIndex(({ content }) => Array.isArray(content) && content.some(isMarked))
  const before = systems ?? (at === -1 ? null : messages.slice(0, at + 1))
  const start = system === undefined ? { messages: before ?? [] } : { system, messages: before ?? [] }
  return before === null ? null : wholeTurns([...chatMessages(start)]).length
}

/** Anthropic's clients name further models by `fallbacks`, others by `models`. */
function modelsOf({ models, fallbacks }: MessagesRequest): readonly string[] | null {
  if (models != null && fallbacks != null) throw invalid('fallbacks', 'send models or fallbacks, not both')
  return models ?? fallbacks?.map(({ model }) => model) ?? null
}

/** Converts a Messages request to a chat (§28). Throws a `Problem` for parts that a chat cannot carry. */
export function chatOfMessages(asked: MessagesRequest): ChatRequest {
  refuseServices(asked)
  const { model, max_tokens, tools, tool_choice: choice, stop_sequences: stop, stream, svc } = asked
  const messages = wholeTurns([...chatMessages(asked)])
  if (messages.length === 0) throw invalid('messages', 'nothing is asked')
  const before = marked(asked)
  // Strict servers refuse what speaks of tools where there are none.
  const used = tools !== undefined && tools.length > 0
  return {
    model,
    messages,
    ...carriedOf('messages', asked),
    max_tokens,
    // For placement alone: no node gets it.
    ...given({ prompt_cache_key: (asked as Json).prompt_cache_key }),
    ...given({ stream, stop: stop?.length === 0 ? null : stop }),
    ...given({ models: modelsOf(asked), metadata: (asked as Json).metadata }),
    ...(used ? { tools: tools.map(toolOf) } : {}),
    ...(used && choice !== undefined ? { tool_choice: toolChoice(choice) } : {}),
    ...(used && choice?.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {}),
    ...formatOf(asked),
    ...thinking(asked),
    ...(svc === undefined ? {} : { svc }),
    ...(before === null ? {} : { [markedMessages]: before }),
  }
}
