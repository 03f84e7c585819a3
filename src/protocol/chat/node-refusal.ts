import { brand } from '../../brand.ts'
import type { Confidences } from '../../confidences.ts'
import { Problem } from '../../errors.ts'
import { foreignJson } from '../json/foreign-json.ts'
import { cleanMessage } from './clean-message.ts'

/** Why a node does not serve this very request: for the client to mend, and no failure of the node. */
export interface NodeRefusal {
  readonly code: 'invalid_request' | 'context_length_exceeded' | 'unsupported_input'
  /** The node's own words, cleaned; null if nothing may be shown. */
  readonly message: string | null
  /** Of a prompt that is too long, as far as the node says it. */
  readonly promptTokens: number | null
  readonly contextLength: number | null
}

type Fields = Readonly<Record<string, unknown>>
const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const countOf = (value: unknown): number | null => {
  const count = Number(value)
  return Number.isSafeInteger(count) && count > 0 ? count : null
}

/** Statuses that mean that the node refuses the request itself. */
const refusing: ReadonlySet<number> = new Set([400, 413, 422])
/** 500 and 501 are read, too: servers answer so where a model takes no pictures. */
export const saysWhy = (status: number): boolean => refusing.has(status) || status === 500 || status === 501

/** By name: llama.cpp, OpenAI and agents; then the words of vLLM, SGLang, llama.cpp, Ollama, LM Studio and TGI. */
const tooLong = new RegExp(
  [
    'exceed_context_size|context_length_exceeded',
    'maximum (?:context|model) length|too long to fit into the model',
    "longer than the (?:model's |maximum )*(?:context|model) length|exceeds the maximum allowed (?:input )?length",
    'exceeds? the (?:available |maximum )*context|context (?:length|size|window) (?:has been )?exceeded',
    'context length of only|greater than the context length|n_keep \\(\\d+\\) >= n_ctx',
    '`inputs` tokens \\+ `max_new_tokens` must be|`inputs` must have less than',
  ].join('|'),
  'i',
)

const inputKind = '(?:image|audio|video|vision|multi-?modal|media)'
const unsupportedInput = new RegExp(
  [
    `\\b${inputKind}s?\\b[^.]{0,40}\\b(?:is|are) (?:not (?:supported|enabled)|unsupported)`,
    `(?:not|n't) (?:support|accept|take|process|have) (?:[\\w-]+ ){0,3}${inputKind}`,
    `unsupported (?:${inputKind}|content|input)|missing data required for ${inputKind} input`,
    `not a multi-?modal model|without (?:\\w+ ){0,2}${inputKind} support|mmproj`,
  ].join('|'),
  'i',
)

const first = (text: string, patterns: readonly RegExp[]): number | null => {
  for (const pattern of patterns) {
    const found = pattern.exec(text)
    if (found !== null) return countOf(found[1] ?? found[2])
  }
  return null
}
const promptIn = (text: string) =>
  first(text, [
    /(\d+) (?:in|tokens from) the (?:messages|input messages|prompt)/i,
    /(\d+) (?:`inputs`|input) tokens/i,
    /(?:request|input|prompt|length) \((?:total )?(?:length )?(\d+)/i,
    /(?:resulted in|keep the first|requested|contains at least|has) (\d+) tokens/i,
    /n_keep \((\d+)\)|\bGiven: (\d+)/i,
  ])
const contextIn = (text: string) =>
  first(text, [
    /(?:context|model) length (?:is|of|of only)? ?\(?(\d+)/i,
    /context size \((\d+)|n_ctx \((\d+)\)/i,
    /maximum allowed (?:input )?length (?:of )?\(?(\d+)/i,
    /must (?:be <=|have less than) (\d+)/i,
  ])

/** The error of a body, in the shapes that servers give it; a text that is no JSON is one by itself. */
function errorOf(text: string): Fields {
  const value = foreignJson(text)
  if (value === undefined) return /^\s*[<{[]/.test(text) ? {} : { message: text }
  const body = fieldsOf(value)
  return typeof body.error === 'string'
    ? { ...body, message: body.error }
    : body.error == null
      ? body
      : fieldsOf(body.error)
}

function wordsOf(error: Fields): string {
  const { message, detail } = error
  const [fault] = Array.isArray(detail) ? detail : []
  return textOf(message) || textOf(detail) || textOf(fieldsOf(fault).msg)
}

function codeOf(status: number | null, error: Fields, words: string): NodeRefusal['code'] | null {
  const { code, type } = error
  if (tooLong.test(`${textOf(code)} ${textOf(type)} ${words}`)) return 'context_length_exceeded'
  if (code === 'unsupported_input') return code
  const said = status ?? countOf(code) ?? 0
  if (refusing.has(said) || (said === 0 && /invalid_request|BadRequest/i.test(`${textOf(code)} ${textOf(type)}`))) {
    return 'invalid_request'
  }
  return unsupportedInput.test(words) ? 'unsupported_input' : null
}

/** A node's reason is short; a longer text is not a reason and is not read, UTF-16 units. */
const reasonUnitsMax = 64 * 1024
/** How much of an error decides its kind, UTF-16 units. */
const wordsMax = 4_096

export interface Speaker {
  /** The node's names, and the client's names for the same things. */
  readonly names: Readonly<Record<string, string>>
  /** Confidential values that the node was sent, and that the client must not see. */
  readonly confided: Confidences
}

/**
 * A node's refusal in place of an answer; null if the failure is the node's own. `status`: null for an error under a
 * 200.
 */
export function nodeRefusal(status: number | null, text: string, { names, confided }: Speaker): NodeRefusal | null {
  const error = text.length > reasonUnitsMax ? {} : errorOf(text)
  // Struck before it is cut, so that no half of a key is left.
  const words = confided.strike(wordsOf(error).slice(0, 2 * wordsMax)).slice(0, wordsMax)
  const code = codeOf(status, error, words)
  if (code === null) return null
  const message = cleanMessage(words, names)
  if (code !== 'context_length_exceeded') return { code, message, promptTokens: null, contextLength: null }
  const ours = fieldsOf(error[brand])
  return {
    code,
    message,
    promptTokens: countOf(error.n_prompt_tokens ?? ours.prompt_tokens) ?? promptIn(words),
    contextLength: countOf(error.n_ctx ?? ours.context_length) ?? contextIn(words),
  }
}

/** Statuses of a server that has no such path, or none for this model. */
const noSuchWork: ReadonlySet<number> = new Set([404, 405, 501])
/** The words of vLLM, SGLang, Ollama and llama.cpp for work that their model does not do. */
const otherWork =
  /(?:not|n't) support|unsupported|not (?:an? )?(?:embedding|generat|rerank|chat|text)|cannot (?:embed|rank|generate)|without `?--(?:embedding|rerank)/i

/**
 * What a node says of a kind of work that it does not do, cleaned and perhaps empty; null: it does not say so. Only asked of
 * a call on trial (§35).
 */
export function refusedWork(status: number, text: string, { names, confided }: Speaker): string | null {
  const words = text.length > reasonUnitsMax ? '' : confided.strike(wordsOf(errorOf(text)).slice(0, 2 * wordsMax))
  if (!noSuchWork.has(status) && !otherWork.test(words)) return null
  return cleanMessage(words.slice(0, wordsMax), names) ?? ''
}

/** True if a server has no such path. A 404 that speaks of the model says that the server has lost it. */
export function lacksPath(status: number, text: string): boolean {
  if (!noSuchWork.has(status)) return false
  return status !== 404 || (text.length <= reasonUnitsMax && !/model/i.test(wordsOf(errorOf(text))))
}

/** The client's error for it. */
export function refusalProblem({ code, message, promptTokens, contextLength }: NodeRefusal): Problem {
  const detail = message ?? (code === 'invalid_request' ? 'The node refused the request.' : null)
  return new Problem(code, {
    ...(detail === null ? {} : { detail }),
    ...(code === 'context_length_exceeded' ? { param: 'messages' } : {}),
    metadata: {
      ...(promptTokens === null ? {} : { prompt_tokens: promptTokens }),
      ...(contextLength === null ? {} : { context_length: contextLength }),
    },
  })
}
