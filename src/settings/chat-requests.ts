import type { Setting } from './setting.ts'

const MiB = 1024 * 1024

/** One chat request: its size, its waits, its tries. */
export const chatSettings = {
  SVC_CHAT_BODY_BYTES_MAX: {
    kind: 'number',
    default: 8 * MiB,
    min: 1024,
    max: 64 * MiB,
    meaning: 'Largest body of a chat request, bytes',
  },
  SVC_CONNECT_TIMEOUT_MS: {
    kind: 'number',
    default: 5_000,
    min: 100,
    max: 60_000,
    meaning: 'How long connecting to a node may take, ms',
  },
  SVC_TTFT_TIMEOUT_MS: {
    kind: 'number',
    default: 120_000,
    min: 1_000,
    max: 3_600_000,
    meaning:
      'How long the first chunk of a stream may take, over all tries, ms. An answer without a stream may take the total time.',
  },
  SVC_INTER_CHUNK_TIMEOUT_MS: {
    kind: 'number',
    default: 60_000,
    min: 1_000,
    max: 3_600_000,
    meaning: 'How long a node may be silent between two chunks, ms',
  },
  SVC_TOTAL_TIMEOUT_MS: {
    kind: 'number',
    default: 600_000,
    min: 1_000,
    max: 86_400_000,
    meaning: 'How long a whole request may take, ms',
  },
  SVC_SLOW_CLIENT_TIMEOUT_MS: {
    kind: 'number',
    default: 60_000,
    min: 1_000,
    max: 240_000,
    meaning: 'How long a client may read nothing before the gateway cuts it off, ms',
  },
  SVC_CLIENT_QUEUE_BYTES_MAX: {
    kind: 'number',
    default: 256 * 1024,
    min: 16 * 1024,
    max: 16 * MiB,
    meaning: 'How much the gateway queues for one client before it stops reading from the node, bytes',
  },
  SVC_FAILOVER_ROUTES_MAX: {
    kind: 'number',
    default: 2,
    min: 0,
    max: 8,
    meaning: 'How many other routes the gateway tries before the first byte',
  },
  SVC_FAILOVER_FIRST_CHUNK_MS: {
    kind: 'number',
    default: 10_000,
    min: 100,
    max: 600_000,
    meaning:
      'How long the gateway waits for the first chunk of a route (or 4 times the route’s usual time) before it tries another one, ms',
  },
  SVC_HEADER_COMMIT_MS: {
    kind: 'number',
    default: 8_000,
    min: 0,
    max: 9_000,
    meaning: 'How long the gateway holds back the status of a stream while it waits for the first chunk, ms',
  },
  SVC_KEEP_ALIVE_MS: {
    kind: 'number',
    default: 10_000,
    min: 5_000,
    max: 30_000,
    meaning: 'Silence on a running stream after which the gateway sends a comment line, ms',
  },
  SVC_FINISH_HOLD_MS: {
    kind: 'number',
    default: 2_000,
    min: 0,
    max: 10_000,
    meaning: 'How long the last chunk waits for the node’s usage, ms',
  },
  SVC_QUEUE_WAIT_MS: {
    kind: 'number',
    default: 10_000,
    min: 0,
    max: 60_000,
    meaning: 'How long a request waits for a free slot before it gets 429, ms',
  },
  SVC_COLD_WAIT_MS: {
    kind: 'number',
    default: 180_000,
    min: 1_000,
    max: 3_600_000,
    meaning: 'How long a request waits for a model that is being loaded before it gets 503, ms',
  },
  SVC_QUEUE_WAITING_MAX: {
    kind: 'number',
    default: 64,
    min: 0,
    max: 10_000,
    meaning: 'How many requests may wait for one model',
  },
  SVC_QUEUE_WAITING_KEY_MAX: {
    kind: 'number',
    default: 16,
    min: 0,
    max: 10_000,
    meaning: 'How many of them may be of one gateway key',
  },
  SVC_OUTPUT_TOKENS_DEFAULT: {
    kind: 'number',
    default: 4_096,
    min: 1,
    max: 1_048_576,
    meaning: '`max_tokens` of a request that has none, where a quota needs a ceiling, tokens',
  },
} as const satisfies Record<string, Setting>
