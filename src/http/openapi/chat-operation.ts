import { headers } from '../../brand.ts'
import { type ProblemCode, problemKind } from '../../errors.ts'
import { type JsonObject, ref } from './schema.ts'
import { requestExamples, streamExamples, wholeExamples } from './transcripts.ts'

const codes: readonly ProblemCode[] = [
  'invalid_json',
  'invalid_request',
  'n_not_supported',
  'private_job_not_supported',
  'dispatch_mode_invalid',
  'private_job_payload_not_allowed',
  'direct_node_targeting_not_allowed',
  'node_pin_conflict',
  'conflicting_credentials',
  'context_length_exceeded',
  'unsupported_input',
  'max_tokens_exceeded',
  'mixture_unsupported_path',
  'mixture_strategy_reserved',
  'mixture_invalid',
  'mixture_too_many_experts',
  'mixture_expert_field_forbidden',
  'mixture_pin_conflict',
  'mixture_token_budget_exceeded',
  'missing_credentials',
  'invalid_api_key',
  'invalid_credentials',
  'insufficient_funds',
  'max_price_exceeded',
  'account_suspended',
  'node_pin_forbidden',
  'model_not_allowed',
  'privacy_class_not_allowed',
  'own_nodes_only',
  'mixture_not_allowed',
  'model_not_found',
  'idempotency_in_progress',
  'idempotency_completed',
  'payload_too_large',
  'unsupported_media_type',
  'idempotency_key_reused',
  'rate_limited',
  'concurrency_limited',
  'capacity_exhausted',
  'daily_token_quota_exceeded',
  'internal_error',
  'upstream_error',
  'no_route_available',
  'node_asleep',
  'mixture_quorum_not_met',
  'service_unavailable',
  'upstream_timeout',
]

/** One response per status, its codes in the description. */
function errorResponses(): JsonObject {
  const byStatus = Map.groupBy(codes, (code) => problemKind(code).status)
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => [
      status,
      {
        description: group.map((code) => `\`${code}\``).join(', '),
        headers: {
          [headers.shouldRetry]: { description: 'Whether the same request may succeed later', schema: bool },
          ...(status === 429 || status === 503 ? { 'Retry-After': { description: 'Seconds', schema: integer } } : {}),
        },
        content: { 'application/json': { schema: ref('OpenAiError') } },
      },
    ]),
  )
}

const bool = { type: 'boolean' }
const integer = { type: 'integer' }
const text = { type: 'string' }
const header = (name: string, description: string) => ({
  name,
  in: 'header',
  required: false,
  schema: text,
  description,
})

/** Endpoint 2: the route answers with a `Response` of its own, so nothing of this can be read off the mounted route. */
export const chatOperation: JsonObject = {
  operationId: 'createChatCompletion',
  summary: 'Chat completion',
  description:
    'OpenAI-compatible. Fields that are not listed (tools, response_format, seed, …) pass through to the node, and those that no table of the gateway knows to your own nodes alone; `svc` is for the gateway and stays here. With `stream: true` the answer is `text/event-stream`: only `data:` lines and `:` comments, ended by `data: [DONE]`. `svc.mixture` asks several models on your own nodes and returns one answer. Its stream begins when every sub-call has ended. Instead of a gateway key an operator may send a role token as bearer together with the two customer headers, for trials.',
  tags: ['Inference'],
  security: [{ GatewayKey: [] }],
  parameters: [
    {
      name: 'node_id',
      in: 'query',
      required: false,
      schema: text,
      description: 'Use only this node, which must be one of yours',
    },
    header(
      'Idempotency-Key',
      'Prevents that a repeated paid request is charged twice. The gateway keeps only its hash.',
    ),
    header(headers.requestId, 'The caller’s own id, which the log shows'),
    header(headers.customerId, 'Only with a role token as bearer, never with a gateway key'),
    header(headers.customerToken, 'Only with a role token as bearer, never with a gateway key'),
  ],
  requestBody: {
    required: true,
    content: { 'application/json': { schema: ref('ChatRequest'), examples: requestExamples } },
  },
  responses: {
    200: {
      description: 'The completion, or its chunks as server-sent events',
      headers: { [headers.requestId]: { description: 'Equal to `svc.request_id`', schema: text } },
      content: {
        'application/json': { schema: ref('ChatCompletion'), examples: wholeExamples },
        'text/event-stream': {
          schema: { type: 'string', description: 'Each `data:` line except the last one is a `ChatChunk`' },
          examples: streamExamples,
        },
      },
    },
    ...errorResponses(),
  },
}
