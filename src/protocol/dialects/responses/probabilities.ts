import { isObject, type Json } from '../../json/json-object.ts'
import { topProbabilitiesMax } from '../../wire/inference/responses.ts'

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
  if (!isObject(value) || typeof value.token !== 'string' || typeof value.logprob !== 'number') return null
  const { token, logprob, bytes } = value
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

/** The same as JSON, with commas between. */
export const probabilitiesText = (logprobs: unknown): string =>
  logprobs === undefined ? '' : JSON.stringify(probabilitiesOf(logprobs)).slice(1, -1)
