import { fromPromise, type InspectionEvent } from 'xstate'
import type { Database, OpenDatabase } from '../../db/client.ts'
import * as rows from '../../db/queries/money/payout-batches.ts'
import { batchCounts } from '../../db/queries/money/public-settlement.ts'
import { decideReceipt, type ReceiptDecision } from '../../db/queries/money/receipt-decisions.ts'
import { Problem } from '../../errors.ts'
import { newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import {
  type BatchContext,
  type BatchFacts,
  type BatchRecord,
  leadsTo,
  payoutBatchMachine,
  type WriteResult,
} from '../../machines/charts/payout-batch.ts'
import { batchDue, payoutsPerBatchMax } from '../../machines/rules/payout-batching.ts'
import { MerkleTree, payoutLeafOf, toHex } from '../../protocol/receipts/merkle.ts'
import { type BatchStatus, batchStatuses } from '../../protocol/wire/money/money.ts'
import { isoTime, minuteMs, secondMs } from '../../time.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { DueWork } from '../durable/due-work.ts'
import { isRowFault } from '../durable/group-commit.ts'
import { runToRest } from '../durable/run-to-rest.ts'
import { createSnapshot } from '../durable/snapshot.ts'
import { type BuiltBatch, buildBatch } from './batch-building.ts'
import { batchStep, payoutStatus } from './batch-changes.ts'
import type { EvmChain } from './evm-chain.ts'

export type PayoutBatch = rows.PayoutBatchRow

export interface BatchProof {
  readonly entryId: string
  readonly nodeId: string
  /** The id in the leaf: the receipt's hash; null: of a batch of contract v1, whose id is the hash of `entryId`. */
  readonly payoutId: string | null
  readonly payee: string
  readonly amountWei: bigint
  readonly leaf: string
  readonly proof: readonly string[]
}

export type SettlementVerbs = ReturnType<Settlement['by']>

export interface SettlementOptions {
  readonly db: Database
  readonly sql: OpenDatabase['sql']
  readonly log: Log
  readonly trail: AuditTrail
  /** null if no blockchain is configured. */
  readonly chain: EvmChain | null
  readonly pollMs: number
  /** SVC_PAYOUT_BATCH_AGE_MS, SVC_PAYOUT_BATCH_MIN_WEI. */
  readonly batchAgeMs: number
  readonly batchMinWei: bigint
  /** SVC_PAYOUT_ANNOUNCE_MS: the time between a batch's entry in the log and its settlement. */
  readonly announceMs: number
  readonly inspect?: (event: InspectionEvent) => void
  /** After a crash another gateway continues the batch when this lease ends, ms. */
  readonly leaseMs?: number
  readonly now?: () => number
}

/** Longer than any look at the blockchain takes, with the time limits of the RPC. */
const leaseMsDefault = minuteMs
const readyForMs = 5 * minuteMs
const checkEveryMs = 30 * secondMs
const concurrencyMax = 4
const countsKeptMs = 5 * secondMs

const refusals = {
  not_held: 'The receipt is not on hold',
  batched: 'The payout of the receipt is in a batch, which cannot be taken back',
  no_debit: 'The ledger has no debit of the receipt: ./penstock audit books says what is wrong',
  balance: 'The balance of the customer would be more than 2^256 - 1',
} as const

/** `until` `'soon'`: the log has not taken the batch yet. */
const announced = (until: Date | 'soon') =>
  until === 'soon'
    ? 'The public log has not announced the batch yet. It does within seconds; SVC_PAYOUT_ANNOUNCE_MS counts from then'
    : `The public log announces the batch until ${isoTime(until)}, so that anyone can compare it (SVC_PAYOUT_ANNOUNCE_MS)`

type Claim = PayoutBatch & { readonly leaseId: string }

/** Sends payouts to the blockchain (§14). Without a blockchain every batch stays as it is. */
export class Settlement {
  readonly configured: boolean
  private readonly db: Database
  private readonly now: () => number
  private readonly work: DueWork<Claim> | null
  /** The number of batches in each status, at most 5 s old. */
  readonly counts: () => Promise<Readonly<Record<BatchStatus, number>>>
  private readyAtMs = Number.NEGATIVE_INFINITY
  private checkedAtMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: SettlementOptions) {
    this.db = options.db
    this.now = options.now ?? Date.now
    this.configured = options.chain !== null
    this.counts = createSnapshot(countsKeptMs, async () => {
      const rowsOf = new Map((await batchCounts(this.db)).map(({ status, count }) => [status, count]))
      return Object.fromEntries(batchStatuses.map((status) => [status, rowsOf.get(status) ?? 0])) as never
    })
    this.work = options.chain === null ? null : this.dueWork(options.chain)
  }

  async start(): Promise<void> {
    if (this.work === null) this.options.log.info('settlement_off')
    await this.work?.start()
  }

  async stop(): Promise<void> {
    await this.work?.stop()
  }

  /** True if the blockchain and the contract answered within the last 5 minutes. */
  ready(): boolean {
    return this.now() - this.readyAtMs <= readyForMs
  }

  /** The actions in the name of an admin. Each is one transaction with its audit event; a dry run has an event, too. */
  by(audit: AuditContext) {
    return {
      /** Builds a batch of everything that can be paid now, at most 1 000 payouts of any age. */
      build: ({ dryRun }: { readonly dryRun: boolean }) => this.build(audit, dryRun),
      /** Makes the batch due at once. Refuses with `batch_not_found`, `invalid_state` or `settlement_not_configured`. */
      submit: (batchId: string) => this.wake(audit, batchId, false),
      /** Like `submit`, and also releases a batch that was on hold after its reverts. */
      retry: (batchId: string) => this.wake(audit, batchId, true),
      /**
       * Decides whether the payout of a receipt on hold is paid, or its customer has the debit back. Resolves with what the
       * customer got back. Refuses with `receipt_not_found` or `invalid_state`.
       */
      decide: (receiptHash: string, decision: ReceiptDecision) => this.decide(audit, receiptHash, decision),
    }
  }

  async batch(batchId: string): Promise<PayoutBatch> {
    const row = await rows.getBatch(this.db, batchId)
    if (row === null) throw new Problem('batch_not_found')
    return row
  }

  async proofs(batchId: string): Promise<readonly BatchProof[]> {
    const { merkleRoot, leafVersion } = await this.batch(batchId)
    const members = await rows.batchMembers(this.db, batchId)
    const idOf = ({ receiptHash }: { readonly receiptHash: string }) => (leafVersion === 1 ? null : receiptHash)
    const leaves = members.map((member) => payoutLeafOf({ ...member, receiptHash: idOf(member) }))
    const tree = MerkleTree.of(leaves)
    if (tree.root() !== merkleRoot) throw new Error('the payouts of a batch do not make its root')
    return members.map((member, at) => {
      const leaf = leaves[at] ?? new Uint8Array()
      return { ...member, payoutId: idOf(member), leaf: toHex(leaf), proof: tree.proof(leaf) ?? [] }
    })
  }

  private build(audit: AuditContext, dryRun: boolean): Promise<BuiltBatch> {
    return this.db.transaction(async (tx) => {
      await rows.lockBuilder(tx)
      const built = await buildBatch(tx, await rows.payablePayouts(tx, payoutsPerBatchMax), dryRun)
      const metadata = { dry_run: dryRun, amount_wei: built.totalAmountWei.toString() }
      await this.options.trail.record(tx, audit, { targetId: built.batch?.batchId ?? null, metadata })
      return built
    })
  }

  private async decide(audit: AuditContext, receiptHash: string, decision: ReceiptDecision): Promise<bigint> {
    const decided = this.db.transaction(async (tx) => {
      const outcome = await decideReceipt(tx, receiptHash, decision, newId('led'))
      if (outcome === 'unknown') throw new Problem('receipt_not_found')
      if (typeof outcome === 'string') throw new Problem('invalid_state', { detail: refusals[outcome] })
      const metadata = { result: decision, ...(decision === 'rejected' ? { amount_wei: outcome.toString() } : {}) }
      await this.options.trail.record(tx, audit, { targetId: receiptHash, metadata })
      return outcome
    })
    return decided.catch((error: unknown) => {
      throw isRowFault(error) ? new Problem('invalid_state', { detail: refusals.balance }) : error
    })
  }

  private async wake(audit: AuditContext, batchId: string, release: boolean): Promise<PayoutBatch> {
    await this.batch(batchId)
    const { work } = this
    if (work === null) throw new Problem('settlement_not_configured')
    const row = await this.db.transaction(async (tx) => {
      const until = release ? null : await rows.announcedUntil(tx, batchId, this.options.announceMs)
      if (until !== null) throw new Problem('invalid_state', { detail: announced(until) })
      const woken = await rows.wakeBatch(tx, batchId, release)
      if (woken === null) throw new Problem('batch_not_found')
      if (woken === false) throw new Problem('invalid_state')
      await this.options.trail.record(tx, audit, { targetId: batchId })
      return woken
    })
    work.wake()
    return row
  }

  private dueWork(chain: EvmChain): DueWork<Claim> {
    const { sql, log, pollMs } = this.options
    return new DueWork<Claim>({
      name: 'payout_batches',
      sql,
      log,
      concurrencyMax,
      pollMs,
      claim: (limit) => this.claim(Math.min(1, limit)),
      run: (batch, signal) => this.run(chain, batch, signal),
      sweep: () => this.sweep(chain),
    })
  }

  private async claim(limit: number): Promise<{ readonly items: readonly Claim[]; readonly more: boolean }> {
    const leaseId = newId('wrk')
    const { leaseMs = leaseMsDefault, announceMs } = this.options
    const claimed = await rows.claimBatches(this.db, { limit, leaseId, leaseMs, announceMs })
    return { items: claimed.map((row) => ({ ...row, leaseId })), more: claimed.length > 0 }
  }

  private async run(chain: EvmChain, batch: Claim, signal: AbortSignal): Promise<void> {
    const { log, inspect } = this.options
    const context: BatchContext = { ...batch, restsIn: batch.status, record: { kind: 'postponed', code: null } }
    const nonces = ({ batchId }: BatchFacts) => rows.openNonces(this.db, batchId)
    const machine = payoutBatchMachine.provide({
      actors: {
        sign: fromPromise(async ({ input }) => chain.sign(input, await nonces(input))),
        send: fromPromise(({ input }) => chain.send(input)),
        look: fromPromise(async ({ input }) => chain.look(input, await nonces(input))),
        write: fromPromise(({ input: { facts, record } }) => this.write(facts, record, batch)),
      },
    })
    const options = { id: batch.batchId, log, signal, ...(inspect === undefined ? {} : { inspect }) }
    const rested = await runToRest(machine, { value: batch.status, context }, { type: 'claimed' }, options)
    // Most states have their next step at once. Only a postponed batch waits.
    if (rested !== null && rested !== batch.status) this.work?.wake()
  }

  /** One transaction: the batch, its payouts and receipts. */
  private write(facts: BatchFacts, record: BatchRecord, batch: Claim): Promise<WriteResult> {
    return this.db.transaction(async (tx) => {
      if (record.kind === 'signed') {
        await rows.lockNonces(tx)
        if ((await rows.openNonces(tx, facts.batchId)).includes(record.nonce)) return 'nonce_taken'
      }
      const { pollMs, log } = this.options
      const { changes, waitMs } = batchStep(record, { facts, batch, now: new Date(this.now()), pollMs })
      if (record.kind === 'held') log.error('payout_batch_held', { batch_id: facts.batchId, code: record.code })
      if (!(await rows.updateClaimed(tx, facts.batchId, facts.leaseId, changes, waitMs))) return 'lease_lost'
      const status = leadsTo[record.kind]
      if (status !== null) await rows.movePayouts(tx, facts.batchId, payoutStatus[status])
      return 'written'
    })
  }

  /** Runs beside the claims. It checks whether the blockchain answers and whether a batch is due. */
  private async sweep(chain: EvmChain): Promise<void> {
    const now = this.now()
    if (now - this.checkedAtMs >= checkEveryMs || !this.ready()) {
      this.checkedAtMs = now
      const fault = await chain.fault()
      if (fault === null) this.readyAtMs = this.now()
      else this.options.log.warn('chain_not_ready', { code: fault })
    }
    await this.buildDue().catch((error: unknown) =>
      this.options.log.warn('batch_not_built', { error: failureName(error) }),
    )
  }

  private async buildDue(): Promise<void> {
    const { batchAgeMs, batchMinWei } = this.options
    const built = await this.db.transaction(async (tx) => {
      await rows.lockBuilder(tx)
      const pending = await rows.payablePayouts(tx, payoutsPerBatchMax)
      const payable = pending.filter(({ payee }) => payee !== null)
      if (!batchDue(payable, { nowMs: this.now(), ageMs: batchAgeMs, minWei: batchMinWei })) return null
      return buildBatch(tx, pending, false)
    })
    if (built === null || built.batch === null) return
    this.options.log.info('payout_batch_created', { batch_id: built.batch.batchId, payouts: built.payoutCount })
    this.work?.wake()
  }
}
