import { Problem } from '../../../errors.ts'
import { given, isObject, type Json } from '../../json/json-object.ts'
import type { ChatRequest } from '../../wire/inference/chat.ts'
import type { ResponsesRequest } from '../../wire/inference/responses.ts'
import { carriedOf } from '../members/unlisted.ts'
import { wholeTurns } from '../messages/whole-turns.ts'
import { type Echo, echoed, echoOf } from './echo.ts'
import { chatTools, joinedName } from './tools.ts'

type Message = ChatRequest['messages'][number] & Json

const invalid = (param: string, detail: string) =>
  new Problem('invalid_request', { param, detail: `${param}: ${detail}` })

/** A chat, and the part of the request that its response repeats. */
export type ResponsesChat = ChatRequest & { readonly [echoed]: Echo }

/**
 * Refuses features that need a store, or work that continues after the client has left. `store` itself is accepted and
 * answered with false.
 */
function refuseStored(asked: Json): void {
  for (const name of ['previous_response_id', 'conversation', 'background', 'prompt']) {
    if (asked[name] != null && asked[name] !== false) throw new Problem('responses_not_stored', { param: name })
  }
  if (asked.truncation != null && asked.truncation !== 'disabled') {
    throw invalid('truncation', 'this gateway drops nothing of an input')
  }
  const { context_management: context } = asked
  if (context != null && !(Array.isArray(context) && context.length === 0)) {
    throw invalid('context_management', 'this gateway keeps no context that it could edit')
  }
  const include = asked.include ?? []
  if (!Array.isArray(include) || include.some((what) => !includable.includes(what)))
    throw invalid('include', `there is nothing to include but ${includable.join(' and ')}`)
}

const probabilities = 'message.output_text.logprobs'
/** Reasoning is never encrypted here, so a client that asks for it loses nothing. */
const includable: readonly unknown[] = ['reasoning.encrypted_content', probabilities]

/** Chat asks for probabilities and for how many; here either asks for both, but not the default number, 0. */
function probabilitiesAsked(asked: ResponsesRequest): Json {
  const { top_logprobs: top } = asked
  const { include } = asked as Json
  const included = Array.isArray(include) && include.includes(probabilities)
  if ((top ?? 0) === 0 && !included) return {}
  return { logprobs: true, ...given({ top_logprobs: top }) }
}

const texts: ReadonlySet<unknown> = new Set(['input_text', 'output_text', 'text', 'summary_text'])

function partOf(part: Json, at: string): Json {
  if (texts.has(part.type) && typeof part.text === 'string') return { type: 'text', text: part.text }
  if (part.type === 'refusal' && typeof part.refusal === 'string') return { type: 'text', text: part.refusal }
  if (part.type === 'input_image' && typeof part.image_url === 'string') {
    const detail = typeof part.detail === 'string' ? { detail: part.detail } : {}
    return { type: 'image_url', image_url: { url: part.image_url, ...detail } }
  }
  throw new Problem('unsupported_input', { param: at, detail: `${at}: no node takes parts of this type` })
}

const isText = ({ type }: Json) => type === 'text'
const textOf = (parts: readonly Json[]) => parts.map(({ text }) => text).join('\n\n')

function partsOf(content: unknown, at: string): readonly Json[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw invalid(at, 'a text or a list of parts')
  return content.map((part, index) => partOf(isObject(part) ? part : {}, `${at}[${index}]`))
}

/** Plain text where there is nothing else: some servers' templates take nothing else. */
function contentOf(content: unknown, at: string): unknown {
  const parts = partsOf(content, at)
  return parts.every(isText) ? textOf(parts) : parts
}

/** Pictures of a tool's output follow as the user's, where templates look for them. */
function* outputMessages({ call_id: id, output }: Json, at: string): Generator<Message> {
  if (typeof id !== 'string') throw invalid(`${at}.call_id`, 'an output names its call')
  const parts = partsOf(output, `${at}.output`)
  yield { role: 'tool', tool_call_id: id, content: textOf(parts.filter(isText)) }
  const pictures = parts.filter((part) => !isText(part))
  if (pictures.length > 0) yield { role: 'user', content: pictures }
}

const roles: ReadonlyMap<unknown, Message['role']> = new Map([
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['system', 'system'],
  ['developer', 'system'],
])

function toolCall({ call_id: id, name: own, namespace, arguments: input }: Json, at: string): Json {
  if (typeof id !== 'string' || typeof own !== 'string' || typeof input !== 'string') {
    throw invalid(at, 'a function call has call_id, name and arguments')
  }
  const name = typeof namespace === 'string' ? joinedName(namespace, own) : own
  return { id, type: 'function', function: { name, arguments: input } }
}

function addItem(messages: Message[], item: Json, at: string): void {
  const { type = 'message' } = item
  const last = messages.at(-1)
  switch (type) {
    case 'message': {
      const role = roles.get(item.role)
      if (role === undefined) throw invalid(`${at}.role`, 'one of user, assistant, system, developer')
      messages.push({ role, content: contentOf(item.content, `${at}.content`) })
      return
    }
    case 'function_call': {
      const call = toolCall(item, at)
      if (last?.role !== 'assistant') messages.push({ role: 'assistant', content: null, tool_calls: [call] })
      // Ours alone: a copy for each of ten thousand calls would take their square.
      else if (Array.isArray(last.tool_calls)) last.tool_calls.push(call)
      else messages[messages.length - 1] = { ...last, tool_calls: [call] }
      return
    }
    case 'function_call_output':
      messages.push(...outputMessages(item, at))
      return
    // Thoughts are never sent to a node.
    case 'reasoning':
      return
    case 'item_reference':
      throw new Problem('responses_not_stored', { param: at })
    default:
      throw new Problem('tool_not_supported', { param: `${at}.type` })
  }
}

function messagesOf({ instructions, input }: ResponsesRequest): ChatRequest['messages'] {
  const messages: Message[] = []
  if (instructions != null && instructions !== '') messages.push({ role: 'system', content: instructions })
  if (typeof input === 'string') messages.push({ role: 'user', content: input })
  else for (const [index, item] of input.entries()) addItem(messages, item, `input[${index}]`)
  if (messages.length === 0) throw invalid('input', 'nothing is asked')
  return wholeTurns(messages)
}

function toolChoice(choice: ResponsesRequest['tool_choice']): unknown {
  if (typeof choice === 'string' && ['auto', 'none', 'required'].includes(choice)) return choice
  const named: Json | null = isObject(choice) ? choice : null
  if (named?.type === 'function' && typeof named.name === 'string') {
    return { type: 'function', function: { name: named.name } }
  }
  throw invalid('tool_choice', 'auto, none, required, or one function')
}

function formatOf(format: Json): unknown {
  if (format.type === 'text') return null
  if (format.type === 'json_object') return { type: 'json_object' }
  if (format.type !== 'json_schema') throw invalid('text.format.type', 'text, json_object or json_schema')
  if (!isObject(format.schema)) throw invalid('text.format.schema', 'the JSON schema that the answer has to fit')
  const { type: _, ...schema } = format
  return { type: 'json_schema', json_schema: schema }
}

/** Converts a Responses request to a chat (§28). Throws a `Problem` for parts that a chat cannot carry. */
export function chatOfResponses(asked: ResponsesRequest): ResponsesChat {
  refuseStored(asked)
  const { model, tools, tool_choice: choice, text, reasoning, stream, max_output_tokens, models, metadata, svc } = asked
  const functions = chatTools(tools ?? [])
  // Strict servers refuse what speaks of tools where there are none.
  const used = functions.length > 0
  const { parallel_tool_calls: parallel, ...sampled } = carriedOf('responses', asked)
  return {
    model,
    messages: messagesOf(asked),
    ...sampled,
    ...probabilitiesAsked(asked),
    ...given({ stream, max_tokens: max_output_tokens, models, metadata }),
    ...given({ reasoning_effort: reasoning?.effort, verbosity: text?.verbosity }),
    ...given({ response_format: text?.format == null ? null : formatOf(text.format) }),
    ...(used ? { tools: functions } : {}),
    ...(used && choice != null ? { tool_choice: toolChoice(choice) } : {}),
    ...given({ parallel_tool_calls: used ? parallel : null }),
    ...(svc === undefined ? {} : { svc }),
    // For placement alone: no node gets it.
    ...given({ prompt_cache_key: (asked as Json).prompt_cache_key }),
    [echoed]: echoOf(asked),
  }
}
