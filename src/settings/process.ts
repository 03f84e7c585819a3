import type { Setting } from './setting.ts'

/** Where a gateway listens, keeps its data, and tells how it is. */
export const processSettings = {
  SVC_HOST: { kind: 'text', default: '127.0.0.1', meaning: 'Listen address' },
  SVC_PORT: { kind: 'number', default: 7070, min: 0, max: 65_535, meaning: 'Listen port (0: any free one)' },
  SVC_PUBLIC_URL: {
    kind: 'text',
    default: null,
    meaning:
      '`{base_url}` in the index and in links; default `http://<host>:<port>`, with an address of this computer where the host is a wildcard',
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
  SVC_TRUSTED_PROXIES: {
    kind: 'list',
    meaning: 'Addresses and networks (`10.0.0.0/8`) whose `X-Forwarded-For` counts',
  },
  SVC_PROBLEM_BASE_URL: {
    kind: 'text',
    default: null,
    meaning: 'Base of `type` in problem bodies; default `urn:svc:problem:`',
  },
  SVC_SHUTDOWN_GRACE_MS: {
    kind: 'number',
    default: 30_000,
    min: 0,
    max: 600_000,
    meaning: 'In-flight requests may finish for, at shut-down, ms',
  },
  SVC_LOG_LEVEL: {
    kind: 'choice',
    default: 'info',
    of: ['debug', 'info', 'warn', 'error', 'silent'],
    meaning: 'Least level that is logged; `info` has one line per request',
  },
  SVC_REQUEST_LOG_DAYS: {
    kind: 'number',
    default: 7,
    min: 0,
    max: 365,
    meaning: 'What became of each request is kept for, days (never content); 0: in memory only, the last 10,000',
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
} as const satisfies Record<string, Setting>
