import type { TSchema } from '@sinclair/typebox'

/** Where a request comes in. What Ollama's clients say of the next token stands in their `options`. */
export const doors = ['chat', 'completions', 'embeddings', 'rerank', 'responses', 'messages', 'ollama'] as const
export type Door = (typeof doors)[number]

/**
 * What becomes of a field (§35). `carried`: the node gets it by its name. `mapped`: the node gets it in another form. `hint`: the gateway
 * reads it, and no node gets it. `refused`: the client gets an error. `dropped`: no node gets it.
 */
export type Fate = 'carried' | 'mapped' | 'hint' | 'refused' | 'dropped'

/** A door that is absent has no such field. */
export type Fates = Partial<Readonly<Record<Door, Fate>>>
type Origin =
  | 'OpenAI'
  | 'Anthropic'
  | 'Ollama'
  | 'llama.cpp'
  | 'vLLM'
  | 'SGLang'
  | 'TEI'
  | 'Cohere'
  | 'OpenRouter'
  | 'Penstock'

interface Notes {
  /** The form in which a node gets it, or why it gets none. */
  readonly note?: string
  /** It is refused at these doors, which have a field of their own for it. */
  readonly instead?: Partial<Readonly<Record<Door, string>>>
  /** Where its type or its range is another one. */
  readonly valueAt?: Partial<Readonly<Record<Door, TSchema>>>
}

export interface Field<S extends TSchema = TSchema> extends Notes {
  /** Who defines it. */
  readonly of: Origin
  readonly at: Fates
  /**
   * Its type and its range, as its definers have them. A door that checks it takes the check from here; elsewhere the node decides.
   * Each may be null, which asks for nothing, unless a door says otherwise.
   */
  readonly value: S
}

export const field = <S extends TSchema, const M extends Notes = object>(
  of: Origin,
  at: Fates,
  value: S,
  more: M = {} as M,
): Field<S> & M => ({ of, at, value, ...more })

/** Fields that differ by their names alone. */
export const alike = <const N extends readonly string[], F extends Field>(
  names: N,
  row: F,
): Readonly<Record<N[number], F>> => Object.fromEntries(names.map((name) => [name, row])) as Record<N[number], F>

/** Fates of a field of chat, for which other doors have a field of their own. */
export const notAt = (carried: Fates, instead: NonNullable<Notes['instead']>): Fates => ({
  ...carried,
  ...Object.fromEntries(Object.keys(instead).map((door) => [door, 'refused' as const])),
})

export const everywhere = {
  chat: 'carried',
  completions: 'carried',
  responses: 'carried',
  messages: 'carried',
} as const
export const carriedEverywhere = { ...everywhere, ollama: 'carried' } as const
/** Of chat and completions, whose requests reach a node as they come. */
export const ofTexts = { chat: 'carried', completions: 'carried' } as const
export const at = (fate: Fate): Fates => Object.fromEntries(doors.map((door) => [door, fate]))
