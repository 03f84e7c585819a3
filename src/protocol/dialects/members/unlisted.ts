import { Problem } from '../../../errors.ts'
import type { Json } from '../../json/json-object.ts'
import type { Door, Field } from '../field.ts'
import { fields, namesOf, promptNames } from '../fields.ts'

/**
 * A field that the table lacks at its door goes to the account's own nodes by its name, and to no other's, who may bill for it (§35).
 * Under this mark a translated request keeps the first of them, as its client named it; no writer of JSON sees it.
 */
export const unlisted: unique symbol = Symbol('unlisted')
export interface Unlisted {
  readonly [unlisted]?: string
}

/** Of a translated request. */
export const markedUnlisted = (body: object): string | null => (body as Unlisted)[unlisted] ?? null

/** A longer name is cut, UTF-16 units: it is repeated to the client and kept for `explain`. */
const nameUnitsMax = 64

/** A copy: the cut name does not hold the long one in memory. */
const shortened = (name: string) =>
  name.length <= nameUnitsMax ? name : `${Buffer.from(name.slice(0, nameUnitsMax)).toString()}…`

const namesAt = (door: Door) => Object.keys(fields).filter((name) => fields[name]?.at[door] !== undefined)

const known = {
  chat: new Set([...promptNames.chat, ...namesAt('chat')]),
  completions: new Set([...promptNames.completions, ...namesAt('completions')]),
  embeddings: new Set([...promptNames.embeddings, ...namesAt('embeddings')]),
  rerank: new Set([...promptNames.rerank, ...namesAt('rerank')]),
}

/** The first such field of a request that reaches its node as it came; null: there is none. What is null asks for nothing. */
export function firstUnlisted(door: keyof typeof known, asked: object): string | null {
  const names = known[door]
  for (const name in asked) if (!names.has(name) && (asked as Json)[name] != null) return shortened(name)
  return null
}

const carriedOfRankings = namesOf('rerank', 'carried')

/** What of a ranking's request its server gets by its name: what the table carries, and what it lacks. What is null asks for nothing. */
export function carriedRanking(asked: object): Json {
  const passes = (name: string) => carriedOfRankings.has(name) || !known.rerank.has(name)
  return Object.fromEntries(Object.entries(asked).filter(([name, value]) => value != null && passes(name)))
}

/** Members of a node's chat that the gateway itself writes or reads: no other door gives them by these names. */
const ours: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'tools', 'stream'],
  ...namesAt('chat').filter((name) => fields[name]?.at.chat !== 'carried'),
])

type Translated = 'responses' | 'messages' | 'ollama'

/** Throws for a field that this door has by another name, or that a node would take for another. False: it says nothing. */
function carries(door: Translated, name: string, value: unknown, path: string): boolean {
  const other = Object.hasOwn(fields, name) ? fields[name]?.instead?.[door] : undefined
  if (other === undefined && !ours.has(name)) return true
  if (name === 'n') {
    if (value === 1) return false
    throw new Problem('n_not_supported', { param: path })
  }
  const why = other === undefined ? 'there is no such field here' : `here it is called ${other}`
  throw new Problem('invalid_request', { param: path, detail: `${path}: ${why}` })
}

/** What a door's own reader takes. */
const readAt = (door: Translated, prompt: readonly string[]): ReadonlySet<string> =>
  new Set([
    ...prompt,
    ...namesAt(door).filter((name) => {
      const { at, instead } = fields[name] as Field
      return at[door] !== 'carried' && name !== 'n' && instead?.[door] === undefined
    }),
  ])

/** What goes to a node as it is. */
const passed = {
  responses: namesOf('responses', 'carried'),
  messages: namesOf('messages', 'carried'),
  ollama: namesOf('ollama', 'carried'),
}

/**
 * What of a request goes to its node as it is: what the table carries, and what it does not know. What a client left out stays left
 * out, so that a node's own default stands. `taken`: what its reader takes; `place`: before each name in what the client is told.
 */
function carry(door: Translated, asked: object, taken: ReadonlySet<string>, place = ''): Json & Unlisted {
  const names = passed[door]
  // Without a prototype: `__proto__` is a name like any other.
  const out: Record<string, unknown> & { [unlisted]?: string } = Object.create(null)
  for (const name in asked) {
    const value = (asked as Json)[name]
    if (value == null) continue
    if (!names.has(name)) {
      if (taken.has(name) || !carries(door, name, value, place + shortened(name))) continue
      out[unlisted] ??= place + shortened(name)
    }
    out[name] = value
  }
  return out
}

const taken = {
  responses: readAt('responses', promptNames.responses),
  messages: readAt('messages', promptNames.messages),
}

/** Of a request to Responses or to Messages. */
export const carriedOf = (door: keyof typeof taken, asked: object): Json & Unlisted => carry(door, asked, taken[door])

const dropped = namesOf('ollama', 'dropped')
const beside = new Set([...dropped, ...namesOf('ollama', 'hint')])
const optionsTaken = new Set([...dropped, 'num_predict'])
/** These stand beside `options`. */
const noOptions = new Set(
  [...namesOf('ollama', 'mapped'), ...namesOf('ollama', 'hint')].filter((name) => name !== 'num_predict'),
)

/** What stands in `options`, or would as well. */
export const isOption = (name: string): boolean => passed.ollama.has(name) || name === 'num_predict'

/** Of what Ollama's clients send beside what its path takes. */
export const carriedBeside = (asked: object): Json & Unlisted => carry('ollama', asked, beside)

/** Of Ollama's `options`, but `num_predict`. */
export function carriedOptions(options: object): Json & Unlisted {
  for (const name in options) {
    if (!noOptions.has(name) || (options as Json)[name] == null) continue
    const param = `options.${name}`
    throw new Problem('invalid_request', { param, detail: `${param}: this stands beside options` })
  }
  return carry('ollama', options, optionsTaken, 'options.')
}
