import type { Envelope } from '../../protocol/json/problem-response.ts'
import { basePaths } from './registry.ts'

/** What answers questions about tokens, below each base URL: no operations, since no answer is generated, metered or charged. */
export const tokenPaths = {
  countTokens: '/messages/count_tokens',
  inputTokens: '/responses/input_tokens',
  tokenize: '/tokenize',
  detokenize: '/detokenize',
} as const

const tokenRoutePaths: readonly string[] = Object.values(tokenPaths).flatMap((path) =>
  basePaths.map((base) => base + path),
)

/** Of the errors of such a route; null: it is no such route. */
export function tokenEnvelope(route: string): Envelope | null {
  if (!tokenRoutePaths.includes(route)) return null
  return route.endsWith(tokenPaths.countTokens) ? 'anthropic' : 'openai'
}
