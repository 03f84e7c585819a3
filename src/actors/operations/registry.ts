import { chat } from './chat.ts'
import { embeddings } from './embeddings.ts'
import type { Operation } from './operation.ts'

/** Every kind of inference that the gateway serves. */
export const operations: readonly Operation[] = [chat, embeddings]

/** The path by which metrics, traces, logs and OpenAPI know an operation. */
export const routeOf = ({ path }: Pick<Operation, 'path'>): string => `/v1/api${path}`
