import { isObject } from '../json/json-object.ts'
import type { TextChoice } from './text-completion.ts'

/** Its log probabilities by the name of OpenAI and vLLM, or by that of llama.cpp; null: it has none. */
function probabilitiesOf({ logprobs }: TextChoice): readonly unknown[] | null {
  if (logprobs === null) return null
  const { token_logprobs: named, content } = logprobs
  if (Array.isArray(named)) return named
  return Array.isArray(content) ? content.map((token) => (isObject(token) ? token.logprob : null)) : null
}

/** Of its tokens, in the mean; null: its node does not tell it. A text without a token is the least likely one. */
function likelihood(choice: TextChoice): number | null {
  const known = probabilitiesOf(choice)?.filter((value) => typeof value === 'number')
  if (known === undefined) return null
  return known.length === 0 ? Number.NEGATIVE_INFINITY : known.reduce((sum, value) => sum + value, 0) / known.length
}

/** The `count` likeliest of them by the mean log probability of a token, best first (`best_of`). null: a node tells none. */
export function likeliest(choices: readonly TextChoice[], count: number): readonly TextChoice[] | null {
  const ranked: { readonly choice: TextChoice; readonly mean: number }[] = []
  for (const choice of choices) {
    const mean = likelihood(choice)
    if (mean === null) return null
    ranked.push({ choice, mean })
  }
  // Two texts without a token have no difference.
  ranked.sort((a, b) => (a.mean === b.mean ? 0 : b.mean - a.mean))
  return ranked.slice(0, count).map(({ choice }) => choice)
}
