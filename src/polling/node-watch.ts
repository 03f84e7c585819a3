import type { RuntimeStatus } from '../runtimes/runtime.ts'
import { TransportError, type TransportFailure } from '../transport/transport.ts'

/** A node's report of one of its runtimes; `label` as in `PoolRuntime`. */
export interface RuntimeReport {
  readonly label: string
  readonly status: RuntimeStatus
}

/** The result of a poll. It has a code and no message, because messages can name the node's address. */
export type PollResult =
  | { readonly kind: 'answered'; readonly reports: readonly RuntimeReport[] }
  /**
   * `unknown_runtime`: it answers, but as no kind of server that is known; `unauthorized`: the agent does not know this
   * gateway; `signature_invalid`: the status is not the agent's own, or not the answer to this question.
   */
  | {
      readonly kind: 'failed'
      readonly code: TransportFailure | 'unknown_runtime' | 'unauthorized' | 'signature_invalid'
    }

/** Runs one exchange within the time limit of the poll. Rejects with `timeout` beyond it. */
export type Bounded = <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>

/** Asks one kind of node. Rejects only with errors of the transport. */
export type Probe = (bounded: Bounded) => Promise<PollResult>

export interface NodeWatchOptions {
  readonly probe: Probe
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Uniform in [0, 1): spreads the polls of many gateways and nodes. */
  readonly random: () => number
  /** Awaited before the next poll begins; must not reject. */
  readonly onResult: (result: PollResult) => Promise<void>
}

export interface NodeWatch {
  /** Polls at once. If a poll is running, resolves when it has ended. */
  pollNow(): Promise<void>
  /**
   * The node says that something has changed. Polls once more, also after a running poll, but with a pause before it.
   */
  pollSoon(): void
  stop(): void
}

const jitterShare = 0.1
/** The pause before a poll that the node caused, however often it reports changes. */
const hintGapMs = 250

/** Asks one node how it is, every so often, one poll at a time. */
export function createNodeWatch(options: NodeWatchOptions): NodeWatch {
  let timer: ReturnType<typeof setTimeout> | null = null
  let polling: Promise<void> | null = null
  let asking: AbortController | null = null
  let stopped = false
  let hinted: ReturnType<typeof setTimeout> | null = null
  let askedMs = Number.NEGATIVE_INFINITY

  const bounded: Bounded = async (work) => {
    const abort = new AbortController()
    asking = abort
    let late = false
    const limit = setTimeout(() => {
      late = true
      abort.abort()
    }, options.timeoutMs)
    try {
      return await work(abort.signal)
    } catch (error) {
      throw late ? new TransportError('timeout') : error
    } finally {
      clearTimeout(limit)
      asking = null
    }
  }

  const ask = async (): Promise<PollResult> => {
    try {
      return await options.probe(bounded)
    } catch (error) {
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
    askedMs = beganMs
    polling = poll().finally(() => {
      polling = null
      schedule(beganMs)
    })
    return polling
  }

  const pollSoon = () => {
    if (stopped || hinted !== null) return
    const waitMs = Math.max(0, askedMs + hintGapMs - performance.now())
    hinted = setTimeout(async () => {
      // The running poll may have been answered before the change.
      await polling
      hinted = null
      void pollNow()
    }, waitMs)
  }

  return {
    pollNow,
    pollSoon,
    stop: () => {
      stopped = true
      asking?.abort()
      if (timer !== null) clearTimeout(timer)
      if (hinted !== null) clearTimeout(hinted)
    },
  }
}
