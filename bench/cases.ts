import type { ColumnName } from './columns.ts'

export const caseNames = ['json1', 'json64', 'rps20', 'body100k', 'stream', 'short', 'flood', 'hold5k'] as const
export type CaseName = (typeof caseNames)[number]

export interface Case {
  readonly about: string
  /** For bench/rig/loadgen.c. */
  readonly load: readonly string[]
  readonly columns: readonly ColumnName[]
  /** A hold needs processes that have served nothing yet: a warm heap hides its own growth. */
  readonly hold?: true
  readonly secsMin?: number
}

export const heldStreams = 5_000
const cpu = ['cpuRequest', 'cpuRequestAll'] as const
const cpuChunk = ['cpuChunk', 'cpuChunkAll'] as const

export const cases: Readonly<Record<CaseName, Case>> = {
  json1: {
    about: '1 connection, closed loop: what is added to one request',
    load: ['--mode', 'json', '--conns', '1'],
    columns: ['p50', 'p99', ...cpu],
  },
  json64: {
    about: '64 connections, closed loop: throughput',
    load: ['--mode', 'json', '--conns', '64'],
    columns: ['rps', 'p50', 'p99', ...cpu],
  },
  rps20: {
    about: '1,024 in flight, the node takes 20 ms',
    load: ['--mode', 'json', '--conns', '1024', '--delay', '20000'],
    columns: ['rps', 'p50', 'p99', ...cpu],
  },
  body100k: {
    about: '100 kB bodies, 16 connections',
    load: ['--mode', 'json', '--conns', '16', '--pad', '100000'],
    columns: ['rps', 'p50', 'p99', ...cpu],
  },
  stream: {
    about: '200 streams of 100 chunks, one each 10 ms',
    load: ['--mode', 'stream', '--conns', '200', '--n', '100', '--us', '10000'],
    columns: ['ttft50', 'ttft99', 'added50', 'added99', 'rps', ...cpuChunk],
    secsMin: 2,
  },
  short: {
    about: '64 connections, streams of 5 chunks sent at once: what starting a stream costs',
    load: ['--mode', 'stream', '--conns', '64', '--n', '5', '--us', '0'],
    columns: ['rps', 'ttft50', 'ttft99', ...cpu],
  },
  flood: {
    about: '64 streams of 100 chunks sent at once: how fast text passes',
    load: ['--mode', 'stream', '--conns', '64', '--n', '100', '--us', '0'],
    columns: ['rps', 'chunks', 'ttft50', ...cpuChunk],
  },
  hold5k: {
    about: '5,000 streams held open, a chunk a second each; then all clients vanish at once',
    load: ['--mode', 'hold', '--conns', String(heldStreams), '--ramp', '2000', '--us', '1000000', '--warm', '1'],
    columns: ['open', 'kbStream', 'rss', 'ttft50', 'added50', ...cpuChunk, 'abort'],
    hold: true,
    secsMin: 4,
  },
}
