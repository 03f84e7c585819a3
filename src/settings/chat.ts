import type { Setting } from './setting.ts'

const MiB = 1024 * 1024

/** One chat request: its size, its waits, its tries. */
export const chatSettings = {
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
    max: 240_000,
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
} as const satisfies Record<string, Setting>
