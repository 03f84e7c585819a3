import type { Setting } from './setting.ts'

/** Where a gateway listens, keeps its data, and tells how it is. */
export const processSettings = {
  SVC_HOST: { kind: 'text', default: '127.0.0.1', meaning: 'Address on which the gateway listens' },
  SVC_PORT: {
    kind: 'number',
    default: 7070,
    min: 0,
    max: 65_535,
    meaning: 'Port on which the gateway listens. 0 means any free port.',
  },
  SVC_PUBLIC_URL: {
    kind: 'text',
    default: null,
    meaning:
      'URL of the gateway in the endpoint index and in links. The default is `http://<host>:<port>`, with an address of this computer where the host is a wildcard.',
  },
  SVC_MDNS: {
    kind: 'flag',
    default: false,
    meaning:
      'Announces the gateway on the local network by multicast DNS: as `penstock.local`, and to node agents that look for one. Needs an `SVC_HOST` that other devices reach.',
  },
  SVC_DATA_DIR: {
    kind: 'text',
    default: '.data',
    meaning: 'Folder of the embedded database and of generated secrets (mode 0600)',
  },
  DATABASE_URL: {
    kind: 'text',
    default: null,
    meaning:
      'URL of a PostgreSQL server, for production and for several gateways. It may name several hosts with commas between, a primary and its standbys. Without it the gateway starts the embedded one.',
  },
  SVC_MEMORY_MB: {
    kind: 'number',
    default: 512,
    min: 128,
    max: 1_048_576,
    meaning:
      'How much of answers, forms and exports one process keeps in memory, MiB. A customer may use a quarter of it; what is more gets 429 `rate_limited`.',
  },
  SVC_DATABASE_CONNECTIONS: {
    kind: 'number',
    default: 10,
    min: 2,
    max: 200,
    meaning: 'How many connections to PostgreSQL one gateway opens',
  },
  SVC_PROCESSES: {
    kind: 'text',
    default: '1',
    meaning: 'Processes that share the port, 1 to 64; `auto`: one less than there are cores',
  },
  SVC_CLUSTER_SECRET: {
    kind: 'secret',
    meaning:
      'Secret by which several gateways on one `DATABASE_URL` recognize each other. All of them have the same one; a single gateway needs none.',
  },
  SVC_PEER_URL: {
    kind: 'text',
    default: null,
    meaning:
      'URL by which other gateways reach this one (`http://10.0.0.2:7070`), to send requests to nodes that dialled in here. With several processes it needs a port other than `SVC_PORT`, and each process takes one from there on; one more is taken while processes are replaced.',
  },
  SVC_TRUSTED_PROXIES: {
    kind: 'list',
    meaning: 'Addresses and networks (`10.0.0.0/8`) of proxies whose `X-Forwarded-For` the gateway believes',
  },
  SVC_CORS_ORIGINS: {
    kind: 'list',
    meaning: 'Origins of web pages (`https://chat.example`) that may call inference from a browser; none by default',
  },
  SVC_PROBLEM_BASE_URL: {
    kind: 'text',
    default: null,
    meaning: 'Prefix of `type` in problem bodies. The default is `urn:svc:problem:`.',
  },
  SVC_WARM_UP: {
    kind: 'flag',
    default: true,
    meaning: 'Before it says that it is ready, the gateway runs its own code warm, for at most 1 s',
  },
  SVC_DRAIN_MS: {
    kind: 'number',
    default: 300,
    min: 300,
    max: 600_000,
    meaning:
      'How long a gateway that ends still takes new connections while `/readyz` says 503, so that a load balancer hears of it, ms. The default is 5,000 with `DATABASE_URL`.',
  },
  SVC_SHUTDOWN_GRACE_MS: {
    kind: 'number',
    default: 30_000,
    min: 0,
    max: 600_000,
    meaning: 'How long running requests may take to finish at a shutdown, ms',
  },
  SVC_LOG_LEVEL: {
    kind: 'choice',
    default: 'info',
    of: ['debug', 'info', 'warn', 'error', 'silent'],
    meaning: 'Lowest level that the log contains. `info` has one line per request.',
  },
  SVC_REQUEST_LOG_DAYS: {
    kind: 'number',
    default: 7,
    min: 0,
    max: 365,
    meaning:
      'How many days the gateway keeps a record of each request, without content. 0 keeps the last 10,000 in the memory of each process.',
  },
  SVC_METRICS_PUBLIC: { kind: 'flag', default: false, meaning: 'Serve `/metrics` without a token' },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    kind: 'text',
    default: null,
    meaning:
      'URL of the OpenTelemetry collector that gets the traces (OTLP over HTTP, `http://127.0.0.1:4318`). Without it there are no traces.',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    kind: 'secret',
    meaning: 'Headers for the collector, as `name=value` with commas between',
  },
  OTEL_SERVICE_NAME: { kind: 'text', default: 'penstock', meaning: 'Name of this gateway in the traces' },
} as const satisfies Record<string, Setting>
