import type { ProblemCode } from '../../errors.ts'
import type { CustomerId, RequestId } from '../../ids.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import { mixturesKeptMax } from '../../protocol/wire/admin/admin-mixtures.ts'
import type { SubCallRole, SubCallStatus } from '../../protocol/wire/inference/mixture.ts'

/**
 * How a mixture ended; also a metric label. `refused` means that policy, budget or quota refused a well-formed
 * configuration.
 */
export type MixtureOutcome = 'succeeded' | 'degraded' | 'quorum_not_met' | 'refused' | 'cancelled' | 'failed'

/** One sub-call, with metadata only. */
export interface SubCallRecord {
  readonly role: SubCallRole
  readonly model: string
  /** null: an aggregator, which has no expert's number. */
  readonly weight: number | null
  readonly status: SubCallStatus
  /** Empty if no node was called. */
  readonly nodeId: string
  /** The request id that the node got and that the receipt contains. null if no node was called. */
  readonly requestId: RequestId | null
  readonly receiptHash: string | null
  /** null: it gave no answer to be measured. */
  readonly latencyMs: number | null
  readonly totalTokens: number | null
}

/** One finished mixture as the admin's list of recent mixtures shows it. It never contains any text. */
export interface MixtureRecord {
  readonly requestId: RequestId
  readonly customerId: CustomerId
  readonly strategy: string
  readonly outcome: MixtureOutcome
  /** The code of the refusal or failure. */
  readonly code: ProblemCode | null
  readonly degraded: boolean
  /** The quorum. null: refused before its configuration was read. */
  readonly minExperts: number | null
  /** Unix ms. */
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly latencyMs: number
  /** The experts in their order, then the aggregator. Empty if no sub-call was sent. */
  readonly experts: readonly SubCallRecord[]
  /** The sum over all sub-calls. */
  readonly usage: TokenUsage
}

export interface MixtureRecords {
  record(record: MixtureRecord): void
  /** Newest first, at most `limit`. */
  recent(limit: number): readonly MixtureRecord[]
}

export function createMixtureRecords(): MixtureRecords {
  const ring: MixtureRecord[] = []
  let next = 0
  return {
    record: (record) => {
      ring[next] = record
      next = (next + 1) % mixturesKeptMax
    },
    recent: (limit) => [...ring.slice(0, next).reverse(), ...ring.slice(next).reverse()].slice(0, limit),
  }
}
