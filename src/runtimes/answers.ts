import { modelIdPattern } from '../ids.ts'
import { foreignJson } from '../protocol/json/foreign-json.ts'
import { given } from '../protocol/json/json-object.ts'
import { cacheTokensMax } from '../protocol/wire/nodes/agent.ts'
import type { ModelFile } from '../protocol/wire/nodes/model-facts.ts'
import type { ProbeFetch, RuntimeModel } from './runtime.ts'

/**
 * Reading what model servers say. Nothing of it is believed before it was looked at: a field of another type counts as
 * absent, and text that is no JSON as an answer without fields.
 */
export type Fields = Readonly<Record<string, unknown>>

export interface Answer {
  readonly status: number
  /** The parsed body, or undefined if it is not JSON or exceeds its bounds. */
  readonly body: unknown
  readonly server: string | null
}

/** How many models of one server are accepted. */
export const modelsMax = 1_000

export async function ask(get: ProbeFetch, path: string): Promise<Answer> {
  const answer = await get(path)
  return { status: answer.status, body: foreignJson(await answer.text()), server: answer.headers.get('server') }
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

/** The entries of a list of objects; null where `value` is no list. */
export function listOf(value: unknown): readonly Fields[] | null {
  return Array.isArray(value) ? value.slice(0, modelsMax).map(fieldsOf) : null
}

export function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** A whole number of at least 1, such as a context length or a number of slots. */
export function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null
}

/** A server's report of a model's files, without absent fields (null); empty if all are absent. */
export function fileOf(said: { readonly [Name in keyof ModelFile]: ModelFile[Name] | null }): {
  readonly file?: ModelFile
} {
  const file = given(said) as ModelFile
  return Object.keys(file).length === 0 ? {} : { file }
}

/** The size of a server's cache by its report; null if it is missing or implausible. */
export function cacheTokensOf(places: number | null, tokensEach: number | null): number | null {
  if (places === null || tokensEach === null) return null
  return places * tokensEach <= cacheTokensMax ? places * tokensEach : null
}

/** The `data` of an OpenAI model list. null if the answer is not one. */
export function modelListOf(answer: Answer): readonly Fields[] | null {
  return answer.status === 200 ? listOf(fieldsOf(answer.body).data) : null
}

/** Removes ids that no node may report (§22), and repeated ids. */
export function believable(models: readonly RuntimeModel[]): readonly RuntimeModel[] {
  const byId = new Map<string, RuntimeModel>()
  for (const model of models) if (modelIdPattern.test(model.id) && !byId.has(model.id)) byId.set(model.id, model)
  return [...byId.values()]
}
