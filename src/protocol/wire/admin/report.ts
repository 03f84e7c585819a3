import { type Static, Type } from '@sinclair/typebox'
import { MixtureTrace } from '../inference/mixture.ts'
import { Instant } from '../shapes.ts'

const uri = Type.String({ format: 'uri' })

/** Endpoint 4 of the specification. */
export const EndpointIndex = Type.Object({
  name: Type.String(),
  base_url: uri,
  endpoints: Type.Array(Type.String({ description: 'Method and path relative to `base_url`' })),
  openapi_url: uri,
  documentation_url: uri,
})
export type EndpointIndex = Static<typeof EndpointIndex>

/** RFC 9727, as a linkset (RFC 9264). */
export const ApiCatalog = Type.Object({
  linkset: Type.Array(
    Type.Object({
      anchor: uri,
      'service-desc': Type.Array(Type.Object({ href: uri, type: Type.String() })),
      'service-doc': Type.Array(Type.Object({ href: uri, type: Type.String() })),
      status: Type.Array(Type.Object({ href: uri, type: Type.String() })),
    }),
  ),
})
export type ApiCatalog = Static<typeof ApiCatalog>

export const Health = Type.Object({
  status: Type.Union([
    Type.Literal('ok'),
    Type.Literal('ready'),
    Type.Literal('starting'),
    Type.Literal('stopping'),
    Type.Literal('descriptors_low'),
    Type.Literal('database_away'),
    Type.Literal('database_full'),
  ]),
})
export type Health = Static<typeof Health>

const help_url = Type.Optional(
  Type.String({ format: 'uri', description: 'The page of the gateway that explains the code' }),
)

/** RFC 9457 with the extension members of §2: every error but those of chat and the model list. */
export const ProblemBody = Type.Object({
  type: Type.String({ description: 'A URN or URL with the code' }),
  title: Type.String({ description: 'Each code has one fixed title' }),
  status: Type.Integer(),
  detail: Type.String(),
  instance: Type.String(),
  code: Type.String(),
  request_id: Type.String(),
  retryable: Type.Boolean(),
  help_url,
  errors: Type.Optional(
    Type.Array(
      Type.Object({
        pointer: Type.Optional(Type.String({ description: 'JSON pointer into the body' })),
        parameter: Type.Optional(Type.String()),
        header: Type.Optional(Type.String()),
        code: Type.String(),
        detail: Type.String(),
      }),
    ),
  ),
})

/** What we add to errors of inference. */
const errorMetadata = {
  request_id: Type.String(),
  status: Type.Integer(),
  retryable: Type.Boolean(),
  retry_after_seconds: Type.Union([Type.Integer(), Type.Null()]),
  help_url,
  prompt_tokens: Type.Optional(
    Type.Integer({ description: 'Only with `context_length_exceeded`: prompt tokens as the node counts them' }),
  ),
  context_length: Type.Optional(
    Type.Integer({ description: 'Only with `context_length_exceeded`: the context length of the node' }),
  ),
  mixture: Type.Optional(MixtureTrace),
  original: Type.Optional(
    Type.Object({
      request_id: Type.String(),
      status: Type.Integer(),
      receipt_hash: Type.String(),
      usage: Type.Object({}),
      completed_at: Instant,
    }),
  ),
}

/** Errors of chat and of the model list: what OpenAI's SDKs understand. */
export const OpenAiErrorBody = Type.Object({
  error: Type.Object({
    message: Type.String(),
    type: Type.String(),
    param: Type.Union([Type.String(), Type.Null()]),
    code: Type.String(),
    svc: Type.Object(errorMetadata),
  }),
})

/** Errors of Messages: what Anthropic's SDKs understand. */
export const AnthropicErrorBody = Type.Object({
  type: Type.Literal('error'),
  error: Type.Object({
    type: Type.String(),
    message: Type.String(),
    details: Type.Optional(Type.Object({}, { description: 'Only with `responses_not_stored`: what is not supported' })),
    svc: Type.Object({ code: Type.String(), param: Type.Union([Type.String(), Type.Null()]), ...errorMetadata }),
  }),
  request_id: Type.String(),
})
