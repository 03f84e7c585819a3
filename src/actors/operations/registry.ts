import { chat } from './chat.ts'
import { completions } from './completions.ts'
import { embeddings } from './embeddings.ts'
import { messages } from './messages.ts'
import type { Operation } from './operation.ts'
import { rerank } from './rerank.ts'
import { responses } from './responses.ts'

/** Every kind of inference that the gateway serves. */
export const operations: readonly Operation[] = [chat, completions, embeddings, messages, responses, rerank]

/** Below each of them stands every operation; the first is canonical (§28). */
export const basePaths = ['/v1/api', '/v1'] as const

/** The path by which metrics, traces, logs and OpenAPI know an operation. */
export const routeOf = ({ path }: Pick<Operation, 'path'>): string => basePaths[0] + path
export const pathsOf = ({ path, alsoAt = [] }: Pick<Operation, 'path' | 'alsoAt'>): readonly string[] => [
  ...basePaths.map((base) => base + path),
  ...alsoAt,
]
