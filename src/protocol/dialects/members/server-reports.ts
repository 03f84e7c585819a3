import { isObject, type Json } from '../../json/json-object.ts'

/** What a client wants to hear of llama.cpp's work: fields that this server knows. */
export interface ReportsAsked {
  readonly timings: boolean
  readonly progress: boolean
}

/** Of its answers and chunks: counts, milliseconds and rates. What else a node puts there can name its machine. */
const timingNames = [
  'cache_n',
  'prompt_n',
  'prompt_ms',
  'prompt_per_token_ms',
  'prompt_per_second',
  'predicted_n',
  'predicted_ms',
  'predicted_per_token_ms',
  'predicted_per_second',
  'draft_n',
  'draft_n_accepted',
] as const
const progressNames = ['total', 'cache', 'processed', 'time_ms'] as const

/** null: the client asked for nothing of it. */
export function reportsAsked(body: object): ReportsAsked | null {
  const { timings_per_token: timings, return_progress: progress } = body as Json
  return timings === true || progress === true ? { timings: timings === true, progress: progress === true } : null
}

function numbersOf(value: unknown, names: readonly string[]): Json | null {
  if (!isObject(value)) return null
  const members = names.flatMap((name) => {
    const number = value[name]
    return typeof number === 'number' && number >= 0 && number < Number.POSITIVE_INFINITY
      ? [[name, number] as const]
      : []
  })
  return members.length === 0 ? null : Object.fromEntries(members)
}

/** null: the node reports none. */
export const timingsOf = (value: unknown): Json | null => numbersOf(value, timingNames)

/** The members of a chunk or an answer, each with a comma before it; empty where nothing was asked for or reported. */
export function reportMembers({ timings, prompt_progress: progress }: Json, asked: ReportsAsked | null): string {
  if (asked === null) return ''
  const times = asked.timings ? timingsOf(timings) : null
  const read = asked.progress ? numbersOf(progress, progressNames) : null
  const member = (name: string, value: Json | null) => (value === null ? '' : `,"${name}":${JSON.stringify(value)}`)
  return member('timings', times) + member('prompt_progress', read)
}
