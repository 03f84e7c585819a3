import { problemTypePrefix } from './brand.ts'

interface ProblemKind {
  readonly status: number
  /** Fixed per code (RFC 9457 `title`). */
  readonly title: string
  /** `x-should-retry` on the chat endpoint (§3); absent where the header is not sent. */
  readonly shouldRetry?: boolean
}

/**
 * Every refusal a caller may see, with the status of §3. The catalogue stands in the vocabulary and not in
 * the HTTP plugin because an event inside a running stream carries the same code and status as a response would.
 */
export const problemKinds = {
  invalid_json: { status: 400, title: 'The body is not valid JSON', shouldRetry: false },
  invalid_request: { status: 400, title: 'The request does not match its schema', shouldRetry: false },
  invalid_parameter: { status: 400, title: 'A path or query parameter is not valid', shouldRetry: false },
  missing_credentials: { status: 401, title: 'No credential was sent', shouldRetry: false },
  invalid_api_key: { status: 401, title: 'The gateway key is not valid', shouldRetry: false },
  invalid_credentials: { status: 401, title: 'The credential is not valid', shouldRetry: false },
  insufficient_funds: { status: 402, title: 'The available balance does not cover the quote', shouldRetry: false },
  max_price_exceeded: { status: 402, title: 'The quote is more than the price you allow', shouldRetry: false },
  idempotency_in_progress: {
    status: 409,
    title: 'A request with this idempotency key is still running',
    shouldRetry: true,
  },
  idempotency_completed: {
    status: 409,
    title: 'A request with this idempotency key has completed',
    shouldRetry: false,
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The idempotency key was used for another request',
    shouldRetry: false,
  },
  account_suspended: { status: 403, title: 'The account is not active', shouldRetry: false },
  insufficient_role: { status: 403, title: 'The role does not allow this', shouldRetry: false },
  route_not_found: { status: 404, title: 'No such route', shouldRetry: false },
  models_managed_elsewhere: {
    status: 501,
    title:
      'Models are not managed here: they come and go on the nodes, by the model servers there or by an operator of the gateway',
    shouldRetry: false,
  },
  misdirected_request: {
    status: 421,
    title: 'This listener does not answer to that name',
    shouldRetry: false,
  },
  method_not_allowed: { status: 405, title: 'The route does not take this method', shouldRetry: false },
  payload_too_large: { status: 413, title: 'The body is too large', shouldRetry: false },
  unsupported_media_type: { status: 415, title: 'The body must be application/json', shouldRetry: false },
  rate_limited: { status: 429, title: 'Too many requests', shouldRetry: true },
  internal_error: { status: 500, title: 'Internal error', shouldRetry: true },
  service_unavailable: { status: 503, title: 'The service is not available now', shouldRetry: true },
  n_not_supported: { status: 400, title: 'Only one choice per request is supported', shouldRetry: false },
  private_job_not_supported: { status: 400, title: 'Private jobs have their own endpoint', shouldRetry: false },
  dispatch_mode_invalid: { status: 400, title: 'The dispatch mode is not known', shouldRetry: false },
  private_job_payload_not_allowed: {
    status: 400,
    title: 'A private-job payload is not allowed here',
    shouldRetry: false,
  },
  direct_node_targeting_not_allowed: { status: 400, title: 'A request cannot name a route', shouldRetry: false },
  node_pin_conflict: { status: 400, title: 'The request pins two different nodes', shouldRetry: false },
  node_pin_forbidden: { status: 403, title: 'The pinned node is not one of yours', shouldRetry: false },
  conflicting_credentials: { status: 400, title: 'The request has two kinds of credentials', shouldRetry: false },
  modality_not_supported: { status: 400, title: 'The model does not serve this modality', shouldRetry: false },
  context_length_exceeded: {
    status: 400,
    title: 'The prompt is longer than the context of the model',
    shouldRetry: false,
  },
  tool_not_supported: { status: 400, title: 'The gateway runs no tools of its own', shouldRetry: false },
  responses_not_stored: { status: 400, title: 'The gateway stores no responses', shouldRetry: false },
  unsupported_input: { status: 400, title: 'The model does not take this kind of input', shouldRetry: false },
  max_tokens_exceeded: {
    status: 400,
    title: 'The request asks for more tokens than the policy allows',
    shouldRetry: false,
  },
  mixture_invalid: { status: 400, title: 'The mixture is not valid', shouldRetry: false },
  mixture_strategy_reserved: { status: 400, title: 'The strategy is reserved', shouldRetry: false },
  mixture_too_many_experts: { status: 400, title: 'The mixture has too many experts', shouldRetry: false },
  mixture_expert_field_forbidden: {
    status: 400,
    title: 'An expert or aggregator cannot name a node',
    shouldRetry: false,
  },
  mixture_pin_conflict: { status: 400, title: 'A mixture cannot be pinned to a node', shouldRetry: false },
  mixture_unsupported_path: {
    status: 400,
    title: 'Mixtures are not available on this path',
    shouldRetry: false,
  },
  mixture_token_budget_exceeded: {
    status: 400,
    title: 'The sub-calls could use more tokens than a mixture may',
    shouldRetry: false,
  },
  mixture_not_allowed: { status: 403, title: 'The policy does not allow mixtures', shouldRetry: false },
  model_not_allowed: { status: 403, title: 'The policy does not allow this model', shouldRetry: false },
  privacy_class_not_allowed: {
    status: 403,
    title: 'Key or account keep prompts from the nodes that serve this model',
    shouldRetry: false,
  },
  sealed_only: { status: 403, title: 'This key may only send sealed requests', shouldRetry: false },
  own_nodes_only: { status: 403, title: 'Only your own nodes may serve this request', shouldRetry: false },
  model_not_found: { status: 404, title: 'No such model', shouldRetry: false },
  runtime_not_found: { status: 404, title: 'No such runtime' },
  runtime_unavailable: { status: 503, title: 'The runtime is not available now', shouldRetry: true },
  concurrency_limited: { status: 429, title: 'Too many requests at once', shouldRetry: true },
  capacity_exhausted: { status: 429, title: 'Every node that serves this model is full', shouldRetry: true },
  daily_token_quota_exceeded: { status: 429, title: 'The daily token quota is used up', shouldRetry: false },
  node_unavailable: { status: 503, title: 'The node cannot be asked now', shouldRetry: true },
  upstream_error: { status: 502, title: 'The node failed', shouldRetry: true },
  // A repetition would run every expert anew (§21, 3).
  mixture_quorum_not_met: { status: 503, title: 'Too few experts answered', shouldRetry: false },
  model_loading: { status: 503, title: 'The model is still being loaded', shouldRetry: true },
  node_asleep: { status: 503, title: 'Only sleeping nodes have this model, and none was woken', shouldRetry: true },
  no_route_available: { status: 503, title: 'No node can serve this model now', shouldRetry: true },
  upstream_timeout: { status: 504, title: 'The node did not answer in time', shouldRetry: true },
  // Only inside a stream (§6).
  stream_idle_timeout: { status: 504, title: 'The node stopped sending', shouldRetry: true },
  node_lost: { status: 502, title: 'The gateway lost the node', shouldRetry: true },
  server_shutdown: { status: 503, title: 'The gateway is shutting down', shouldRetry: true },
  // Private jobs (§10).
  envelope_invalid: { status: 400, title: 'The envelope is not valid' },
  envelope_aad_mismatch: { status: 400, title: 'The envelope was sealed for something else' },
  webhook_url_invalid: { status: 400, title: 'The webhook URL is not allowed' },
  job_id_conflict: { status: 409, title: 'The job id is taken by another job' },
  envelope_replayed: { status: 409, title: 'The ephemeral key was used before' },
  transport_key_unavailable: { status: 422, title: 'The transport key is not in use: fetch the keys and seal again' },
  model_not_served: { status: 422, title: 'The node does not have this model' },
  job_queue_full: { status: 429, title: 'Too many unfinished jobs', shouldRetry: true },
  job_not_found: { status: 404, title: 'No such job' },
  command_not_found: { status: 404, title: 'No such command' },
  webhook_not_found: { status: 404, title: 'No such webhook' },
  // Administration (§23).
  reason_required: { status: 400, title: 'This action needs a reason' },
  confirmation_required: { status: 400, title: 'This action needs its exact confirmation' },
  customer_not_found: { status: 404, title: 'No such customer' },
  key_not_found: { status: 404, title: 'No such key' },
  node_not_found: { status: 404, title: 'No such node' },
  model_entry_not_found: { status: 404, title: 'No such catalogue entry' },
  machine_not_found: { status: 404, title: 'No such statechart' },
  request_not_found: { status: 404, title: 'The gateway does not know this request, or no longer keeps it' },
  enrollment_token_invalid: { status: 401, title: 'The enrolment token is unknown, used or expired' },
  join_not_found: { status: 404, title: 'No such join' },
  pull_not_found: { status: 404, title: 'No such pull' },
  joins_full: { status: 429, title: 'Too many computers wait to join', shouldRetry: true },
  enrollment_token_not_found: { status: 404, title: 'No such enrolment token' },
  tunnel_auth_failed: { status: 401, title: 'The gateway knows no node with this signature' },
  // What nodes sign (§15).
  signature_malformed: { status: 400, title: 'The signature is malformed' },
  signature_expired: { status: 401, title: 'The signature is too old or from the future' },
  signature_invalid: { status: 401, title: 'The signature is not valid' },
  nonce_reused: { status: 401, title: 'The nonce was used before' },
  credit_id_conflict: { status: 409, title: 'The credit id was used for another credit' },
  debit_id_conflict: { status: 409, title: 'The debit id was used for another entry' },
  batch_not_found: { status: 404, title: 'No such payout batch' },
  receipt_not_found: { status: 404, title: 'No such receipt' },
  log_entry_not_found: { status: 404, title: 'The public log does not hold this (yet)' },
  audit_head_lost: { status: 503, title: 'The newest audit event is not the one that this gateway wrote last' },
  settlement_not_configured: { status: 503, title: 'No blockchain is configured' },
  node_exists: { status: 409, title: 'This server is a node already' },
  invalid_state: { status: 409, title: 'The current state does not allow this' },
  precondition_failed: { status: 412, title: 'This was changed since it was read' },
  key_limit_reached: { status: 409, title: 'The customer has the largest allowed number of live keys' },
  admin_not_found: { status: 404, title: 'No such named token' },
  admin_name_taken: { status: 409, title: 'Another token bears this name' },
  admin_limit_reached: { status: 409, title: 'There is the largest allowed number of named tokens' },
  session_not_found: { status: 404, title: 'No such session' },
} as const satisfies Record<string, ProblemKind>

export type ProblemCode = keyof typeof problemKinds

/** Codes in the database may be of another version. */
export const isProblemCode = (code: string): code is ProblemCode => Object.hasOwn(problemKinds, code)

export function problemKind(code: ProblemCode): ProblemKind {
  return problemKinds[code]
}

/** The page of the gateway that explains every code. */
export const errorsPath = '/docs/errors'
export const helpUrl = (baseUrl: string, code: ProblemCode): string => `${baseUrl}${errorsPath}#${code}`

export function problemType(code: ProblemCode, baseUrl: string | null): string {
  return (baseUrl ?? problemTypePrefix) + code
}

export interface FieldFault {
  readonly pointer?: string
  readonly parameter?: string
  readonly header?: string
  readonly code: string
  readonly detail: string
}

export interface ProblemOptions {
  /** Dotted path of the offending value, e.g. `messages[0].role`, `query.node_id`, `header.authorization`. */
  readonly param?: string
  /** A sentence that says what went wrong. It never contains a prompt, a credential, an upstream body or a node's address. */
  readonly detail?: string
  readonly retryAfterSeconds?: number
  readonly errors?: readonly FieldFault[]
  /** Further members of `error.svc` on the chat endpoint. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Extra response headers, e.g. `Allow` or `RateLimit`. */
  readonly headers?: Readonly<Record<string, string>>
  /** Goes to our own log only; the caller never sees it. */
  readonly cause?: unknown
}

/** A refusal that the caller may see. Every other error that code throws is a defect: the answer is 500, and the log names it once. */
export class Problem extends Error {
  override readonly name = 'Problem'
  constructor(
    readonly code: ProblemCode,
    readonly options: ProblemOptions = {},
  ) {
    super(options.detail ?? problemKinds[code].title, options.cause === undefined ? {} : { cause: options.cause })
  }
  get status(): number {
    return problemKinds[this.code].status
  }
}

const controlCharacters = /[\u0000-\u001f\u007f-\u009f]/g

/** Makes a caller's value safe for a message: no control characters, at most 64 characters (§2). */
export function quoteValue(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  const clean = text.replace(controlCharacters, '')
  return clean.length > 64 ? `${clean.slice(0, 64)}…` : clean
}
