import { operations, routeOf } from '../../actors/operations/registry.ts'
import { tokenEnvelope } from '../../actors/operations/token-paths.ts'
import { sealedEnvelope } from '../../actors/sealed/sealed-operation.ts'
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

const problem = { 'application/problem+json': { schema: ref('Problem') } }
/** EHBP has its own: no key of the node opens the request. */
const keyMismatch = {
  'application/problem+json': {
    schema: {
      type: 'object',
      required: ['type', 'title', 'status', 'request_id'],
      properties: {
        type: { type: 'string' },
        title: { type: 'string' },
        status: { type: 'integer', description: '422: fetch the keys of the node again' },
        request_id: { type: 'string' },
      },
    },
  },
}

/** In the form that the client of this path understands. */
export function errorResponse(path: string): JsonObject {
  const sealed = sealedEnvelope(path.replaceAll(/\{(\w+)\}/g, ':$1'))
  const name = schemaNames[envelopes.get(path) ?? tokenEnvelope(path) ?? sealed ?? 'ollama']
  return {
    description: 'The gateway refused the request, or it failed',
    content:
      name === undefined
        ? problem
        : { 'application/json': { schema: ref(name) }, ...(sealed === null ? {} : keyMismatch) },
  }
}
