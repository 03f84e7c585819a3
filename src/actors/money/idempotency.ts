import type { Database } from '../../db/client.ts'
import {
  type ClaimedKey,
  claimKey,
  completeKeys,
  dropOldKeys,
  type IdempotentOutcome,
  type KeyState,
  keyOfAnother,
  releaseKeys,
} from '../../db/queries/accounts/idempotency.ts'
import { Problem } from '../../errors.ts'
import { loop, retry } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { equalBytes, hashToken } from '../../secrets.ts'
import { dayMs, hourMs, isoTime, minuteMs, secondMs } from '../../time.ts'
import type { Access } from '../accounts/access.ts'
import { isRowFault } from '../durable/group-commit.ts'

/** What a key stands for: who asked, and for what. */
export interface KeyedRequest {
  readonly requestId: string
  readonly access: Pick<Access, 'customerId'>
  /** The body as it came. */
  readonly text: string
  readonly query: string
}

/** Keys of billed requests: the same one is billed once, over all gateways (§5). */
export interface Idempotency {
  /**
   * Resolves with what the key is known by. Refuses with `idempotency_in_progress`, `idempotency_completed`, `idempotency_key_reused`, or `invalid_request` for
   * a malformed key. Rejects where the database does not answer: the request is over then, and the key is freed should it be its own.
   */
  claim(command: KeyedRequest, key: string): Promise<ClaimedKey>
  /**
   * What several charges together were. A single charge completes its key by itself. Resolves after the first try; others follow until the
   * database has taken it.
   */
  complete(outcome: IdempotentOutcome): Promise<void>
  /** Nothing was billed: the key is freed once the database has taken it. */
  release(key: ClaimedKey): void
}

export interface OwnedIdempotency extends Idempotency {
  start(): void
  stop(): void
}

const keyPattern = /^[\x21-\x7e]{1,255}$/
const param = 'header.idempotency-key'
const retryAfterSeconds = 2
/** Beside its own time a request may wait for loads and wake-ups, and what it had reserved stands for so long after its gateway has died. */
const waitsMsMax = 15 * minuteMs
/** Between two tries to complete a key, or to free it. */
const tries = { firstMs: 50, maxMs: 5 * secondMs }

/** Claims whose answer was lost. Those beyond count as left behind two minutes later. */
const unansweredMax = 1_000

/** Structured fields quote it; many clients do not. */
const unquoted = (key: string) => (/^".*"$/.test(key) ? key.slice(1, -1) : key)

/** Of a list whose gateway died after it had charged some of it, more is not known than a receipt. */
function refusalOf({ row, cutShort }: KeyState, fingerprint: Buffer): Problem {
  if (!equalBytes(row.fingerprint, fingerprint)) return new Problem('idempotency_key_reused', { param })
  if (row.status === 'in_progress' && !cutShort)
    return new Problem('idempotency_in_progress', { param, retryAfterSeconds })
  return new Problem('idempotency_completed', {
    param,
    metadata: {
      original: {
        request_id: row.requestId,
        status: row.httpStatus,
        receipt_hash: row.receiptHash,
        usage: row.usage,
        completed_at: row.completedAt === null ? null : isoTime(row.completedAt),
      },
    },
  })
}

export function createIdempotency(options: {
  readonly db: Database
  readonly log: Log
  /** SVC_TOKEN_PEPPER, newest first. */
  readonly peppers: readonly string[]
  /** SVC_TOTAL_TIMEOUT_MS */
  readonly requestMsMax: number
}): OwnedIdempotency {
  const { db, log, requestMsMax } = options
  const times = { ttlMs: dayMs, runsMsMax: requestMsMax + waitsMsMax }
  const [pepper = '', ...others] = options.peppers
  const warn = (event: string) => (error: unknown) => log.warn(event, { error: failureName(error) })
  const stopping = new AbortController()
  const untilTaken = retry({
    backoff: tries,
    onFailure: (error) => {
      if (isRowFault(error)) throw error
    },
    signal: stopping.signal,
  })
  const complete = (outcome: IdempotentOutcome) => completeKeys(db, [outcome])
  // Of requests that had a key before the database went away, no more: without it no other gets one.
  const later = (work: () => Promise<void>, failed: string) => void untilTaken(work).catch(warn(failed))
  const unanswered: ClaimedKey[] = []
  const freeUnanswered = async () => {
    while (unanswered.length > 0) {
      const keys = [...unanswered]
      await releaseKeys(db, keys)
      unanswered.splice(0, keys.length)
    }
  }
  /** The database may have taken the claim. One statement frees all of them, however many failed while it was away. */
  const lost = (key: ClaimedKey) => {
    if (unanswered.length === unansweredMax || unanswered.push(key) > 1) return
    untilTaken(freeUnanswered).catch((error: unknown) => {
      unanswered.length = 0
      warn('idempotency_keys_not_released')(error)
    })
  }
  const sweeping = loop({
    everyMs: hourMs,
    boundMs: hourMs,
    run: () => dropOldKeys(db),
    onFailure: warn('idempotency_keys_not_swept'),
  })
  return {
    claim: async (command, given) => {
      const key = unquoted(given)
      if (!keyPattern.test(key)) throw new Problem('invalid_request', { param })
      const { requestId, access } = command
      const asked = canonicalJson(foreignJson(command.text)) + command.query
      const fingerprint = hashToken(pepper, asked)
      const claimed = { customerId: access.customerId, keyHash: hashToken(pepper, key), requestId }
      const unsure = (error: unknown): never => {
        lost(claimed)
        throw error
      }
      const state = await claimKey(db, { ...claimed, fingerprint }, times).catch(unsure)
      if (state.row.requestId !== requestId) throw refusalOf(state, fingerprint)
      // While the pepper is replaced, and for the day after it. Behind its own claim: of two gateways that know it by different hashes one sees the other's.
      for (const other of others) {
        const held = await keyOfAnother(db, { ...claimed, keyHash: hashToken(other, key) }, times).catch(unsure)
        if (held === null) continue
        later(() => releaseKeys(db, [claimed]), 'idempotency_key_not_released')
        throw refusalOf(held, hashToken(other, asked))
      }
      return claimed
    },
    complete: (outcome) =>
      complete(outcome).catch((error: unknown) => {
        warn('idempotency_key_not_completed')(error)
        later(() => complete(outcome), 'idempotency_key_left')
      }),
    release: (key) => later(() => releaseKeys(db, [key]), 'idempotency_key_not_released'),
    start: () => sweeping.start(),
    stop: () => {
      stopping.abort()
      void sweeping.stop()
    },
  }
}
