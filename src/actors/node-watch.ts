import { detectRuntime } from '../runtimes/registry.ts'
import type { ProbeFetch, RuntimeModule, RuntimeStatus } from '../runtimes/runtime.ts'
import { type NodeTransport, TransportError, type TransportFailure } from './transport/transport.ts'

/** What a poll found out. A code and never a message: messages can name the node's address. */
export type PollResult =
  | { readonly kind: 'answered'; readonly status: RuntimeStatus }
  /** `unknown_runtime`: it answers, but as no kind of server that is known. */
  | { readonly kind: 'failed'; readonly code: TransportFailure | 'unknown_runtime' }

export interface NodeWatchOptions {
  readonly transport: NodeTransport
  /** In the order in which they are tried; the first that knows its own wins. */
  readonly modules: readonly RuntimeModule[]
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Uniform in [0, 1): spreads the polls of many gateways and nodes. */
  readonly random: () => number
  /** Awaited before the next poll begins; must not reject. */
  readonly onResult: (result: PollResult) => Promise<void>
}

export interface NodeWatch {
  /** Polls at once; with a poll under way, resolves when that one is done. */
  pollNow(): Promise<void>
  stop(): void
}

const jitterShare = 0.1
/** An answer to a status question that is longer is no such answer. */
const probeBytesMax = 4 * 1024 * 1024

function probeFetch(transport: NodeTransport, signal: AbortSignal): ProbeFetch {
  return async (path) => {
    const response = await transport.fetch(path, { method: 'GET', signal })
    // Read in any case: a body that nobody reads would keep its connection.
    const body = await response.text(probeBytesMax)
    return { status: response.status, headers: response.headers, text: async () => body }
  }
}

/** Asks one node how it is, every so often, one poll at a time. */
export function createNodeWatch(options: NodeWatchOptions): NodeWatch {
  const { transport, modules } = options
  let module: RuntimeModule | null = null
  let before: RuntimeModule | null = null
  let timer: ReturnType<typeof setTimeout> | null = null
  let polling: Promise<void> | null = null
  let asking: AbortController | null = null
  let stopped = false

  const bounded = async <T>(work: (get: ProbeFetch) => Promise<T>): Promise<T> => {
    const abort = new AbortController()
    asking = abort
    let late = false
    const limit = setTimeout(() => {
      late = true
      abort.abort()
    }, options.timeoutMs)
    try {
      return await work(probeFetch(transport, abort.signal))
    } catch (error) {
      throw late ? new TransportError('timeout') : error
    } finally {
      clearTimeout(limit)
      asking = null
    }
  }

  const ask = async (): Promise<PollResult> => {
    try {
      // A server that answers nothing but errors is taken for what it was.
      module ??= (await bounded((get) => detectRuntime(get, modules))) ?? before
      const known = module
      if (known === null) return { kind: 'failed', code: 'unknown_runtime' }
      before = known
      return { kind: 'answered', status: await bounded((get) => known.probe(get)) }
    } catch (error) {
      // Another server may stand at the address when it answers again.
      module = null
      return { kind: 'failed', code: error instanceof TransportError ? error.failure : 'malformed' }
    }
  }

  const poll = async () => {
    const result = await ask()
    if (!stopped) await options.onResult(result)
  }

  const schedule = (beganMs: number) => {
    if (stopped) return
    const spread = 1 - jitterShare + 2 * jitterShare * options.random()
    timer = setTimeout(pollNow, Math.max(0, options.intervalMs * spread - (performance.now() - beganMs)))
  }

  const pollNow = (): Promise<void> => {
    if (stopped) return Promise.resolve()
    if (timer !== null) clearTimeout(timer)
    if (polling !== null) return polling
    const beganMs = performance.now()
    polling = poll().finally(() => {
      polling = null
      schedule(beganMs)
    })
    return polling
  }

  return {
    pollNow,
    stop: () => {
      stopped = true
      asking?.abort()
      if (timer !== null) clearTimeout(timer)
    },
  }
}
