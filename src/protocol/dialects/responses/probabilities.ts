import type { GrowingText } from '../../chat/growing-text.ts'
import { thoughtOf } from '../../chat/thought.ts'
import { isObject, type Json } from '../../json/json-object.ts'
import { topProbabilitiesMax } from '../values.ts'

interface TopProbability {
  readonly token: string
  readonly logprob: number
  readonly bytes: readonly number[]
}
export interface Probability extends TopProbability {
  readonly top_logprobs: readonly TopProbability[]
}

const isByte = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 256

/** null: it has no token, or no number that JSON can carry. */
function oneOf(value: unknown): TopProbability | null {
  if (!isObject(value)) return null
  const { token, logprob, bytes } = value
  // `-1e999` is JSON, and no number that can be written again.
  if (typeof token !== 'string' || typeof logprob !== 'number' || !Number.isFinite(logprob)) return null
  return { token, logprob, bytes: Array.isArray(bytes) && bytes.every(isByte) ? bytes : [] }
}

/**
 * A chat choice's `logprobs.content` in the form of Responses, in which no list is null. What is of another form is left out, and
 * nothing else of the node passes.
 */
export function probabilitiesOf(logprobs: unknown): readonly Probability[] {
  const content = isObject(logprobs) ? logprobs.content : null
  if (!Array.isArray(content)) return []
  return content.flatMap((entry: Json) => {
    const one = oneOf(entry)
    if (one === null) return []
    const top: readonly unknown[] = Array.isArray(entry.top_logprobs)
      ? entry.top_logprobs.slice(0, topProbabilitiesMax)
      : []
    return [{ ...one, top_logprobs: top.flatMap((each) => oneOf(each) ?? []) }]
  })
}

/**
 * Of what a stream keeps for the events that repeat it, UTF-16 units. Probabilities take many times the room of their
 * text: with 20 beside each token some 1,100 units.
 */
const unitsMax = 16 * 1024 * 1024

/** Probabilities of a stream, until the text has come to which they belong: a node may hold back half a character. */
export class ComingProbabilities {
  /** Of all that came, UTF-16 units. */
  units = 0
  /** As JSON with a comma before each. */
  private held = ''

  get tooMany(): boolean {
    return this.units > unitsMax
  }

  /** Those of thoughts and calls have no place in a response. `choice`: of a chat chunk. */
  hold({ delta, logprobs }: Json): void {
    if (logprobs == null || !isObject(delta)) return
    const hasText = Boolean(delta.content) || Boolean(delta.refusal)
    if (!hasText && (thoughtOf(delta) !== '' || Array.isArray(delta.tool_calls))) return
    const entries = probabilitiesOf(logprobs)
    if (entries.length === 0) return
    const more = `,${JSON.stringify(entries).slice(1, -1)}`
    this.held += more
    this.units += more.length
  }

  /** Adds what was held to those of an item. The same as JSON, with commas between. */
  take(ofItem: GrowingText): string {
    const { held } = this
    if (held === '') return ''
    this.held = ''
    ofItem.add(held)
    return held.slice(1)
  }
}
