/**
 * Every environment variable, once: its default, its range and what it means. The reader in `config.ts`, the README's
 * table and the test that holds them together all derive from this list.
 */
export type Setting =
  | { readonly kind: 'text'; readonly default: string | null; readonly meaning: string }
  | { readonly kind: 'secret'; readonly meaning: string }
  | { readonly kind: 'list'; readonly meaning: string }
  | { readonly kind: 'flag'; readonly default: boolean; readonly meaning: string }
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
  SVC_AUDIT_KEY: { kind: 'secret', meaning: 'Keys the hashed addresses in logs and limits; likewise' },
  SVC_ROUTER_KEY: {
    kind: 'secret',
    meaning:
      'Ed25519 seeds by which node agents know this gateway, 32 bytes each in base64 or hex, newest first; likewise',
  },
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
  SVC_METRICS_PUBLIC: { kind: 'flag', default: false, meaning: 'Serve `/metrics` without a token' },
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
