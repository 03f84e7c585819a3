import { type Clock, systemClock } from '../clock.ts'
import { loop } from '../host/loop.ts'
import type { TransportKey } from '../protocol/wire/nodes/agent.ts'
import type { Hardware } from '../protocol/wire/nodes/hardware.ts'
import type { NodePower } from '../protocol/wire/nodes/power.ts'
import type { SealedKey } from '../protocol/wire/nodes/sealed-key.ts'
import type { RuntimeStatus } from '../runtimes/runtime.ts'
import { TransportError, type TransportFailure } from '../transport/transport.ts'

/** A node's report of one of its runtimes; `label` as in `PoolRuntime`. */
export interface RuntimeReport {
  readonly label: string
  readonly status: RuntimeStatus
}

/** What an agent says beside its runtimes. Nobody has looked yet whether the node itself signed the keys. */
export interface AgentFacts {
  /** To which private jobs are sealed. */
  readonly transportKeys: readonly TransportKey[]
  /** To which sealed inference is. */
  readonly sealedKeys: readonly SealedKey[]
  /** null: the agent tells nothing usable of its computer. */
  readonly hardware: Hardware | null
}

/** The result of a poll. It has a code and no message, because messages can name the node's address. */
export type PollResult =
  | {
      readonly kind: 'answered'
      readonly reports: readonly RuntimeReport[]
      readonly power?: NodePower
      /** Absent: the node has no agent. */
      readonly agent?: AgentFacts
    }
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
  /** True while the rhythm is not to poll, because another process does. What is asked for is polled nevertheless. */
  readonly isSpared?: () => boolean
  /** Awaited before the next poll begins; must not reject. `askedMs`: `clock.now()` when its first question went out. */
  readonly onResult: (result: PollResult, askedMs: number) => Promise<void>
  readonly clock?: Clock
}

export interface NodeWatch {
  /** Polls at once. If a poll is running, resolves when it has ended. */
  pollNow(): Promise<void>
  /**
   * The node says that something has changed. Polls once more, also after a running poll, but with a pause before it.
   */
  pollSoon(): void
  /** The rhythm goes on within so many ms, unless the node is spared then. */
  resume(withinMs: number): void
  /** Asks nothing more. Resolves when what the poll under way has found is taken over, or is given up. */
  stop(): Promise<void>
}

const jitter = 0.1
/** The pause before a poll that the node caused, however often it reports changes. */
const hintGapMs = 250

/** Asks one node how it is, every so often, one poll at a time. */
export function createNodeWatch(options: NodeWatchOptions): NodeWatch {
  const { intervalMs, timeoutMs, random, isSpared = () => false, clock = systemClock } = options
  let asking: AbortController | null = null
  let askedMs = Number.NEGATIVE_INFINITY
  /** When the first question of the poll under way went out: a first poll may have to wait for its turn. */
  let sentMs = Number.POSITIVE_INFINITY
  let isPolling = false
  /** The next poll was asked for, and is not only the rhythm's. */
  let isWanted = false
  let hasStopped = false

  const bounded: Bounded = async (work) => {
    // A first poll may have waited for its turn until now.
    if (hasStopped) throw new TransportError('closed')
    const abort = new AbortController()
    asking = abort
    sentMs = Math.min(sentMs, clock.now())
    let late = false
    const giveUp = () => {
      late = true
      abort.abort()
    }
    const cancel = clock.after(timeoutMs, giveUp, true)
    try {
      return await work(abort.signal)
    } catch (error) {
      throw late ? new TransportError('timeout') : error
    } finally {
      cancel()
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

  const poll = async (stopped: AbortSignal) => {
    if (!isWanted && isSpared()) return
    isWanted = false
    isPolling = true
    askedMs = clock.now()
    sentMs = Number.POSITIVE_INFINITY
    const result = await ask()
    if (!stopped.aborted) await options.onResult(result, Math.min(sentMs, clock.now()))
    isPolling = false
  }

  const polling = loop({ everyMs: intervalMs, jitter, random, run: poll, clock })
  polling.start()
  return {
    pollNow: () => {
      isWanted ||= !isPolling
      return polling.now()
    },
    // A poll under way may have been answered before the change: one more follows it.
    pollSoon: () => {
      isWanted = true
      polling.soon(Math.max(0, askedMs + hintGapMs - clock.now()))
    },
    resume: (withinMs) => polling.soon(withinMs),
    stop: () => {
      hasStopped = true
      const ended = polling.stop()
      asking?.abort()
      return ended
    },
  }
}
