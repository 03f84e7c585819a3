import { operations, routeOf } from '../../actors/operations/registry.ts'
import { tokenEnvelope } from '../../actors/operations/token-paths.ts'
import type { Envelope } from '../../protocol/json/problem-response.ts'
import { AnthropicErrorBody, OpenAiErrorBody, ProblemBody } from '../../protocol/wire/admin/report.ts'
import { type JsonObject, openApiSchema, ref } from './schema.ts'

const modelPaths = ['/v1/api/models', '/v1/models', '/v1/models/{*}'] as const

/** Whose envelope the errors of a path have; those of other paths are problems. */
const envelopes: ReadonlyMap<string, Envelope> = new Map<string, Envelope>([
  ...operations.map((operation) => [routeOf(operation), operation.envelope] as const),
  ...modelPaths.map((path) => [path, 'openai'] as const),
])

const schemaNames: Readonly<Partial<Record<Envelope, string>>> = { openai: 'OpenAiError', anthropic: 'AnthropicError' }

export const errorSchemas = {
  Problem: openApiSchema(ProblemBody),
  OpenAiError: openApiSchema(OpenAiErrorBody),
  AnthropicError: openApiSchema(AnthropicErrorBody),
}

/** In the form that the client of this path understands. */
export function errorResponse(path: string): JsonObject {
  const name = schemaNames[envelopes.get(path) ?? tokenEnvelope(path) ?? 'ollama']
  return {
    description: 'The gateway refused the request, or it failed',
    content:
      name === undefined
        ? { 'application/problem+json': { schema: ref('Problem') } }
        : { 'application/json': { schema: ref(name) } },
  }
}
