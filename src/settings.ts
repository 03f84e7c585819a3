/**
 * Every environment variable, once: its default, its range and what it means. The reader in `config.ts`, the table of
 * README.md and the test that holds them together all derive from this list.
 */
export type Setting =
  | { readonly kind: 'text'; readonly default: string | null; readonly meaning: string }
  | { readonly kind: 'secret'; readonly meaning: string }
  | { readonly kind: 'list'; readonly meaning: string }
  | { readonly kind: 'flag'; readonly default: boolean; readonly meaning: string }
  /** A whole amount, read as bigint. */
  | { readonly kind: 'wei'; readonly default: bigint; readonly meaning: string }
  | { readonly kind: 'choice'; readonly default: string; readonly of: readonly string[]; readonly meaning: string }
  | {
      readonly kind: 'number'
      readonly default: number
      readonly min: number
      readonly max: number
      readonly meaning: string
    }

const MiB = 1024 * 1024

export const settings = {
  SVC_HOST: { kind: 'text', default: '127.0.0.1', meaning: 'Listen address' },
  SVC_PORT: { kind: 'number', default: 7070, min: 0, max: 65_535, meaning: 'Listen port (0: any free one)' },
  SVC_PUBLIC_URL: {
    kind: 'text',
    default: null,
    meaning: '`{base_url}` in the index and in links; default `http://<host>:<port>`',
  },
  SVC_DATA_DIR: { kind: 'text', default: '.data', meaning: 'Embedded database, generated secrets (0600)' },
  DATABASE_URL: {
    kind: 'text',
    default: null,
    meaning: 'A PostgreSQL for production and for replicas; unset: the embedded one',
  },
  SVC_DATABASE_CONNECTIONS: {
    kind: 'number',
    default: 10,
    min: 2,
    max: 200,
    meaning: 'Connections of one gateway to PostgreSQL',
  },
  SVC_ADMIN_TOKENS: {
    kind: 'list',
    meaning: 'Admin tokens, raw or `sha256:<hex>`; made at the first start when embedded',
  },
  SVC_OPERATOR_TOKENS: { kind: 'list', meaning: 'Operator tokens, likewise' },
  SVC_VIEWER_TOKENS: { kind: 'list', meaning: 'Viewer tokens, likewise' },
  SVC_TOKEN_PEPPER: {
    kind: 'secret',
    meaning: 'HMAC pepper of stored tokens; made in the data folder when embedded, required with `DATABASE_URL`',
  },
  SVC_SECRETS_KEY: { kind: 'secret', meaning: 'Encrypts stored secrets (node API keys, webhook secrets); likewise' },
  SVC_AUDIT_KEY: {
    kind: 'secret',
    meaning: 'Keys hashed addresses and tokens, and the chains of the audit; a list, newest first; likewise',
  },
  SVC_ROUTER_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds by which node agents know this gateway, 32 bytes each in base64 or hex, newest first; likewise',
  },
  SVC_ENFORCE_REASON: {
    kind: 'flag',
    default: false,
    meaning: 'Refuse admin actions that should have a reason and have none; else they are only marked in the audit',
  },
  SVC_REQUIRE_SECOND_APPROVER: {
    kind: 'flag',
    default: false,
    meaning: 'Credits, keys, payouts and purges need the token of a second admin in `X-SVC-Approver-Token`',
  },
  SVC_AUDIT_MIN_RETENTION_DAYS: {
    kind: 'number',
    default: 1,
    min: 1,
    max: 3_650,
    meaning: 'A purge keeps the events of the audit of at least so many days; production: 30',
  },
  SVC_AUDIT_WATCH_DENIED: {
    kind: 'number',
    default: 5,
    min: 1,
    max: 1_000_000,
    meaning: 'Denied admin calls in the window of an audit summary, from which on its risk is `watch`',
  },
  SVC_AUDIT_REVIEW_DENIED: { kind: 'number', default: 20, min: 1, max: 1_000_000, meaning: 'Likewise, `review`' },
  SVC_AUDIT_WATCH_ERRORS: {
    kind: 'number',
    default: 5,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin calls that ended in a 5xx, likewise: `watch`',
  },
  SVC_AUDIT_REVIEW_ERRORS: { kind: 'number', default: 20, min: 1, max: 1_000_000, meaning: 'Likewise, `review`' },
  SVC_CLUSTER_SECRET: {
    kind: 'secret',
    meaning:
      'Several gateways on one `DATABASE_URL`: by which they know each other, the same for all; unset: one gateway',
  },
  SVC_PEER_URL: {
    kind: 'text',
    default: null,
    meaning:
      'Where the other gateways reach this one (`http://10.0.0.2:7070`), to pass on what is for a node that dialled in here',
  },
  SVC_WEBHOOK_KEY: {
    kind: 'secret',
    meaning: 'Ed25519 seeds that sign webhooks, 32 bytes each in base64 or hex, newest first; likewise',
  },
  SVC_METRICS_PUBLIC: { kind: 'flag', default: false, meaning: 'Serve `/metrics` without a token' },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    kind: 'text',
    default: null,
    meaning: 'Send traces to this OpenTelemetry collector (OTLP over HTTP, `http://127.0.0.1:4318`); unset: no traces',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    kind: 'secret',
    meaning: 'Headers for the collector, `name=value` with commas between',
  },
  OTEL_SERVICE_NAME: { kind: 'text', default: 'penstock', meaning: 'What the traces call this gateway' },
  SVC_DISCOVER: { kind: 'flag', default: true, meaning: 'Look for model servers on loopback at start' },
  SVC_DEMO: {
    kind: 'choice',
    default: 'auto',
    of: ['auto', 'always', 'never'],
    meaning: 'The built-in demo runtime; `auto`: only while no other node exists (`never` with `DATABASE_URL`)',
  },
  SVC_ENDPOINT_NETWORKS: {
    kind: 'list',
    meaning:
      'Networks (`10.0.0.0/8`) in which an enrolling agent may have its `endpoint_url`, over http too; elsewhere only https to a global address',
  },
  SVC_ENROLLMENT_TTL_MS: {
    kind: 'number',
    default: 900_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'An enrolment token works for, ms',
  },
  SVC_TRUSTED_PROXIES: { kind: 'list', meaning: 'Addresses whose `X-Forwarded-For` counts' },
  SVC_LOG_LEVEL: {
    kind: 'choice',
    default: 'info',
    of: ['debug', 'info', 'warn', 'error', 'silent'],
    meaning: 'Least level that is logged; `info` has one line per request',
  },
  SVC_PROBLEM_BASE_URL: {
    kind: 'text',
    default: null,
    meaning: 'Base of `type` in problem bodies; default `urn:svc:problem:`',
  },
  SVC_CHAT_BODY_BYTES_MAX: {
    kind: 'number',
    default: 8 * MiB,
    min: 1024,
    max: 64 * MiB,
    meaning: 'Largest chat body, bytes',
  },
  SVC_JOB_TTL_MS: {
    kind: 'number',
    default: 3_600_000,
    min: 300_000,
    max: 86_400_000,
    meaning: 'A private job that nobody finished expires after, ms',
  },
  SVC_JOB_RETENTION_MS: {
    kind: 'number',
    default: 2_592_000_000,
    min: 3_600_000,
    max: 31_536_000_000,
    meaning: 'An ended private job is deleted, ciphertexts and all, after, ms',
  },
  SVC_JOBS_OPEN_PER_CUSTOMER_MAX: {
    kind: 'number',
    default: 100,
    min: 1,
    max: 100_000,
    meaning: 'Private jobs of one customer that have not ended',
  },
  SVC_JOBS_OPEN_PER_NODE_MAX: {
    kind: 'number',
    default: 1_000,
    min: 1,
    max: 1_000_000,
    meaning: 'Private jobs for one node that have not ended',
  },
  SVC_JOBS_RUNNING_PER_NODE_MAX: {
    kind: 'number',
    default: 4,
    min: 1,
    max: 1_000,
    meaning: 'Private jobs that one gateway has running on one node',
  },
  SVC_WEBHOOK_PORTS: {
    kind: 'list',
    meaning: 'Ports that a `webhook_url` may name; unset: 443 alone',
  },
  SVC_CONNECT_TIMEOUT_MS: {
    kind: 'number',
    default: 5_000,
    min: 100,
    max: 60_000,
    meaning: 'Connecting to a node, ms',
  },
  SVC_TTFT_TIMEOUT_MS: {
    kind: 'number',
    default: 120_000,
    min: 1_000,
    max: 3_600_000,
    meaning: 'Until the first chunk of a stream, all tries together, ms; a whole answer has the total time',
  },
  SVC_INTER_CHUNK_TIMEOUT_MS: {
    kind: 'number',
    default: 60_000,
    min: 1_000,
    max: 3_600_000,
    meaning: 'Between two chunks of a node, ms',
  },
  SVC_TOTAL_TIMEOUT_MS: {
    kind: 'number',
    default: 600_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'A whole request, ms',
  },
  SVC_SLOW_CLIENT_TIMEOUT_MS: {
    kind: 'number',
    default: 60_000,
    min: 1_000,
    max: 3_600_000,
    meaning: 'A client that reads nothing is cut off after, ms',
  },
  SVC_CLIENT_QUEUE_BYTES_MAX: {
    kind: 'number',
    default: 256 * 1024,
    min: 16 * 1024,
    max: 16 * MiB,
    meaning: 'Queued toward one client before the node is no longer read, bytes',
  },
  SVC_FAILOVER_ROUTES_MAX: {
    kind: 'number',
    default: 2,
    min: 0,
    max: 8,
    meaning: 'Other routes tried before the first byte',
  },
  SVC_FAILOVER_FIRST_CHUNK_MS: {
    kind: 'number',
    default: 10_000,
    min: 100,
    max: 600_000,
    meaning: 'A route without a first chunk after this (or 4 times its usual) is given up while another exists, ms',
  },
  SVC_HEADER_COMMIT_MS: {
    kind: 'number',
    default: 8_000,
    min: 0,
    max: 9_000,
    meaning: 'The status of a stream is held until the first chunk or this, ms',
  },
  SVC_KEEP_ALIVE_MS: {
    kind: 'number',
    default: 10_000,
    min: 5_000,
    max: 30_000,
    meaning: 'A comment line after this much silence on a committed stream, ms',
  },
  SVC_FINISH_HOLD_MS: {
    kind: 'number',
    default: 2_000,
    min: 0,
    max: 10_000,
    meaning: 'The finish chunk waits this long for the usage of the node, ms',
  },
  SVC_QUEUE_WAIT_MS: {
    kind: 'number',
    default: 2_000,
    min: 0,
    max: 60_000,
    meaning: 'Waiting for a free slot before 429, ms',
  },
  SVC_QUEUE_WAITING_MAX: {
    kind: 'number',
    default: 64,
    min: 0,
    max: 10_000,
    meaning: 'Requests that may wait, per model',
  },
  SVC_OUTPUT_TOKENS_DEFAULT: {
    kind: 'number',
    default: 4_096,
    min: 1,
    max: 1_048_576,
    meaning: '`max_tokens` where a quota needs a ceiling and the request has none, tokens',
  },
  SVC_MIXTURE_EXPERTS_MAX: {
    kind: 'number',
    default: 4,
    min: 1,
    max: 16,
    meaning: 'Experts of one mixture; the aggregator does not count',
  },
  SVC_MIXTURE_TOKENS_MAX: {
    kind: 'number',
    default: 65_536,
    min: 1_024,
    max: 1_048_576,
    meaning: 'Estimated over all sub-calls of one mixture, tokens',
  },
  SVC_MIXTURE_DEADLINE_MS: {
    kind: 'number',
    default: 120_000,
    min: 5_000,
    max: 600_000,
    meaning: 'A whole mixture, ms; with an aggregator its experts get 65 % of it, else all but 1 s',
  },
  SVC_MIXTURE_OUTPUT_TOKENS_DEFAULT: {
    kind: 'number',
    default: 1_024,
    min: 1,
    max: 1_048_576,
    meaning: '`max_tokens` of each sub-call where the request has none, tokens',
  },
  SVC_POLL_INTERVAL_MS: {
    kind: 'number',
    default: 5_000,
    min: 50,
    max: 60_000,
    meaning: 'Between two status polls of a node, ±10 %, ms',
  },
  SVC_PROBE_TIMEOUT_MS: { kind: 'number', default: 2_000, min: 50, max: 30_000, meaning: 'One status poll, ms' },
  SVC_STALE_AFTER_MS: {
    kind: 'number',
    default: 15_000,
    min: 100,
    max: 600_000,
    meaning: 'No answer for this long: no new work, ms',
  },
  SVC_OFFLINE_AFTER_MS: {
    kind: 'number',
    default: 45_000,
    min: 200,
    max: 3_600_000,
    meaning: 'No answer for this long: offline, in-flight work aborted, ms',
  },
  SVC_HOLD_DOWN_MS: {
    kind: 'number',
    default: 300_000,
    min: 100,
    max: 3_600_000,
    meaning: 'A node that flaps gets no new work for, ms',
  },
  SVC_EJECTION_MS: {
    kind: 'number',
    default: 30_000,
    min: 100,
    max: 300_000,
    meaning: 'First ejection of a failing route; times the number of ejections, at most 300 s, ms',
  },
  SVC_DRAIN_TIMEOUT_MS: {
    kind: 'number',
    default: 300_000,
    min: 100,
    max: 3_600_000,
    meaning: 'A draining node may finish its work for, ms',
  },
  SVC_SHUTDOWN_GRACE_MS: {
    kind: 'number',
    default: 30_000,
    min: 0,
    max: 600_000,
    meaning: 'In-flight requests may finish for, at shut-down, ms',
  },
  SVC_KEY_OUTAGE_MS: {
    kind: 'number',
    default: 60_000,
    min: 0,
    max: 600_000,
    meaning: 'Known keys work from memory while the database is away, ms',
  },
  SVC_KEY_ROTATION_MS: {
    kind: 'number',
    default: 86_400_000,
    min: 0,
    max: 604_800_000,
    meaning: 'A rotated key still works for, ms',
  },
  SVC_RECEIPT_FLUSH_MS: {
    kind: 'number',
    default: 100,
    min: 1,
    max: 1_000,
    meaning: 'Receipts of free work are written at least every, ms',
  },
  SVC_PROTOCOL_FEE_BPS: {
    kind: 'number',
    default: 1_000,
    min: 0,
    max: 10_000,
    meaning: "The operator's part of each charge, basis points; the node has the rest",
  },
  SVC_PRIVATE_INFERENCE_BASE_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Private inference: per request, wei' },
  SVC_PRIVATE_INFERENCE_PROMPT_TOKEN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Per prompt token, wei' },
  SVC_PRIVATE_INFERENCE_COMPLETION_TOKEN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Per completion token, wei' },
  SVC_PRIVATE_INFERENCE_MIN_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Floor of a quote, wei' },
  SVC_PRIVATE_INFERENCE_MAX_PRICE_WEI: { kind: 'wei', default: 0n, meaning: 'Ceiling of a quote, wei; 0: none' },
  SVC_MARKETPLACE_SEGMENT: {
    kind: 'text',
    default: 'marketplace',
    meaning: 'First part of the path of the marketplace catalogue: lower-case letters, digits and `-`',
  },
  SVC_CHAIN_RPC_URL: { kind: 'secret', meaning: 'EVM settlement: the RPC that the gateway itself uses; unset: off' },
  SVC_CHAIN_ID: {
    kind: 'number',
    default: 0,
    min: 0,
    max: 999_999_999_999,
    meaning: 'EVM settlement: chain id that the RPC must answer with',
  },
  SVC_CHAIN_KEY: {
    kind: 'secret',
    meaning: 'EVM settlement: private key of the account that submits, `0x` and 64 hex',
  },
  SVC_CHAIN_CONTRACT: { kind: 'text', default: null, meaning: 'EVM settlement: address of the contract' },
  SVC_PUBLIC_RPC_URL: {
    kind: 'text',
    default: null,
    meaning: 'RPC that the public settlement report names: without credentials, another than the private one',
  },
  SVC_CHAIN_NAME: { kind: 'text', default: null, meaning: 'Name of the network in the public settlement report' },
  SVC_CHAIN_EXPLORER: { kind: 'text', default: null, meaning: 'Block explorer in the public settlement report' },
  SVC_CHAIN_CONFIRMATIONS: {
    kind: 'number',
    default: 64,
    min: 1,
    max: 100_000,
    meaning: 'Blocks until a transaction is final, on chains without the tag `finalized`',
  },
  SVC_SETTLEMENT_POLL_MS: {
    kind: 'number',
    default: 5_000,
    min: 20,
    max: 600_000,
    meaning: 'Between two looks at the chain and at what is due, ms',
  },
  SVC_PAYOUT_BATCH_AGE_MS: {
    kind: 'number',
    default: 3_600_000,
    min: 1_000,
    max: 604_800_000,
    meaning: 'A batch is built once a payout has waited for so long, or 500 wait, ms',
  },
  SVC_PAYOUT_BATCH_MIN_WEI: { kind: 'wei', default: 0n, meaning: 'A batch is built once so much waits, wei' },
  SVC_PUBLIC_RPM_PER_IP: {
    kind: 'number',
    default: 600,
    min: 1,
    max: 1_000_000,
    meaning: 'Public GET requests per address and minute',
  },
  SVC_ADMIN_RPM_PER_TOKEN: {
    kind: 'number',
    default: 600,
    min: 1,
    max: 1_000_000,
    meaning: 'Admin requests per token and minute',
  },
  SVC_CONSOLES_MAX: {
    kind: 'number',
    default: 64,
    min: 1,
    max: 1_000,
    meaning: "Operators' consoles open at once (`GET /v1/admin/inspect`)",
  },
  SVC_AUTH_FAILURES_PER_MINUTE: {
    kind: 'number',
    default: 20,
    min: 1,
    max: 10_000,
    meaning: 'Failed authentications per address and minute',
  },
  SVC_AUTH_LOCKOUT_MS: {
    kind: 'number',
    default: 300_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'Further failures of that address get 429 for, ms',
  },
} as const satisfies Record<string, Setting>

export type SettingName = keyof typeof settings
