import type { Static, TSchema } from '@sinclair/typebox'
import { Problem } from '../../errors.ts'
import type { ChunkIdentity } from '../../protocol/chat/chunk-reader.ts'
import { markedUnlisted } from '../../protocol/dialects/members/unlisted.ts'
import { idleText, type Saying } from '../../protocol/dialects/ollama/answer.ts'
import { withLatest, withoutLatest } from '../../protocol/dialects/ollama/model-tags.ts'
import { optionsTogether, unloads } from '../../protocol/dialects/ollama/request.ts'
import { isObject, type Json } from '../../protocol/json/json-object.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import type { OllamaChatRequest } from '../../protocol/wire/inference/ollama.ts'
import type { Idle } from './operation.ts'
import { readRequestBody, refuseForeignKeys } from './request-body.ts'

/** Below it stands every path of Ollama's interface. */
export const ollamaBase = '/api'

/** What Ollama's operations have in common: they stand on a listener of their own. */
export const ollamaPlace = {
  bases: [ollamaBase],
  envelope: 'ollama',
  streamType: 'application/x-ndjson',
  unlisted: markedUnlisted,
} as const

/** Ollama's clients write `latest` behind every name, and a name without a tag for it, whatever server has the model. */
export const otherTag = (model: string): string | null => withoutLatest(model) ?? withLatest(model)

const absent = (value: unknown) => value === undefined || value === null || value === ''

/** Older clients say `name`, and some of Ollama's own say both, of which one is empty. */
function named(body: Json): Json {
  const { model, ...rest } = body
  if (!absent(model)) return body
  return absent(rest.name) ? rest : { ...rest, model: rest.name }
}

/** What no request may name, none may name among its options: they stand beside each other for a node. */
function fit(body: Json): Json {
  if (isObject(body.options)) refuseForeignKeys(body.options, 'options.')
  return named(body)
}

/** The body of a request to Ollama's interface; see `readRequestBody`. */
export const readOllamaBody = <S extends TSchema>(text: string, schema: S): Static<S> =>
  readRequestBody(text, schema, fit)

/** The same of one that generates: options count where they stand beside `options`, too. */
export const readGenerating = <S extends TSchema>(text: string, schema: S): Static<S> =>
  readRequestBody(text, schema, (body) => optionsTogether(fit(body)))

const nothingAsked = 'A mixture has to be asked something'

/** The chat that a request to Ollama becomes. `unloads`: it has no prompt, and the model shall leave the memory. */
export interface OllamaChat extends ChatRequest {
  readonly unloads?: true
}

/** Without a message a model is loaded, or with `keep_alive` 0 unloaded. */
export function asIdle(asked: Pick<OllamaChatRequest, 'keep_alive' | 'svc'>, body: ChatRequest): OllamaChat {
  if (body.messages.length > 0) return body
  if (asked.svc?.mixture !== undefined) {
    throw new Problem('invalid_request', { param: 'messages', detail: nothingAsked })
  }
  return unloads(asked.keep_alive) ? { ...body, unloads: true } : body
}

/** Makes `idle` of an operation. */
export const idleBy =
  (saying: Saying) =>
  (identity: ChunkIdentity, { messages, unloads: ends }: OllamaChat): Idle | null => {
    if (messages.length > 0) return null
    const wish = ends === true ? 'unload' : 'load'
    return { wish, answer: idleText(saying, identity, wish) }
  }

export const modelsElsewhere = () => new Problem('models_managed_elsewhere')
