import type { Clock } from '../../clock.ts'
import type { Database } from '../../db/client.ts'
import {
  type ChainHead,
  insertApprovalEvent,
  insertCommandEvent,
  lockHead,
  nextOrdinal,
  saveHead,
} from '../../db/queries/audit/audit-chains.ts'
import { type AccessEventRow, type AuditMetadata, ensureAuditPartitions } from '../../db/queries/audit/audit-events.ts'
import { type RecordedState, recordedState } from '../../db/queries/log/row-states.ts'
import { ifUnanswered } from '../../db/unanswered.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { type AdminRoute, approvalPolicyVersion } from '../../machines/rules/admin-route.ts'
import { hashToken } from '../../secrets.ts'
import { dayMs, hourMs } from '../../time.ts'
import { type AccessWriter, createAccessWriter } from './access-writer.ts'
import { chainKeyId, chainStart, eventMac, headProof } from './audit-chain.ts'
import type { Asker, AuditContext, AuditTrail, CommandDeed, Deed } from './audit-context.ts'
import { OwnHead } from './own-head.ts'

export type AccessEvent = Omit<AccessEventRow, 'eventId' | 'createdAt'>

export interface AuditLogOptions {
  readonly db: Database
  readonly log: Log
  /** SVC_AUDIT_KEY, newest first. */
  readonly keys: readonly string[]
  /** What the approval policy says of an action. */
  readonly policyOf: (action: string) => AdminRoute
  /** Unix ms. */
  readonly now?: () => number
  readonly accessQueueMax?: number
  readonly clock?: Clock
}

const pseudonymLength = 12
/**
 * A gateway that runs for weeks makes further partitions by itself. A clock that jumps by less finds its partition
 * made.
 */
const partitionsAheadMs = 28 * dayMs
const maintainEveryMs = hourMs

/** Records who did what, and nothing that would reveal a person or a secret (§16). */
export class AuditLog implements AuditTrail {
  readonly writer: AccessWriter
  private readonly writerId = newId('wrk')
  private readonly key: string
  private readonly keyId: string
  private readonly now: () => number
  private readonly ownHead: OwnHead
  /** True if the last action was refused because the end of this gateway's chain is missing from the database. */
  headLost = false
  private readonly maintaining: Loop

  constructor(private readonly options: AuditLogOptions) {
    const { db, log, accessQueueMax, keys, clock } = options
    const [key] = keys
    if (key === undefined) throw new Error('The gateway has no audit key')
    this.key = key
    this.keyId = chainKeyId(key)
    this.ownHead = new OwnHead(key)
    this.now = options.now ?? Date.now
    this.maintaining = loop({ everyMs: maintainEveryMs, run: () => this.maintain(), clock })
    this.writer = createAccessWriter({ db, log, ...(accessQueueMax === undefined ? {} : { queueMax: accessQueueMax }) })
  }

  /** Makes the partitions of the coming weeks now and again later. Never rejects. */
  async start(): Promise<void> {
    await this.maintaining.startNow()
  }

  /** Writes the events that still wait. */
  async stop(): Promise<void> {
    void this.maintaining.stop()
    await this.writer.stop()
  }

  /** Records one admin call after its answer. It never waits. */
  access(event: AccessEvent): void {
    this.writer.write({ ...event, eventId: newId('evt'), createdAt: new Date(this.now()) })
  }

  /** The first 12 hex digits of HMAC-SHA-256(newest key, `"<field>\0"‖value`), or null without a value. */
  pseudonym(field: 'actor' | 'ip' | 'user_agent', value: string | null): string | null {
    return value === null ? null : hashToken(this.key, `${field}\0${value}`).toString('hex').slice(0, pseudonymLength)
  }

  /** The hash prefix by which events know the actor of a token. */
  actorPrefix(token: string): string {
    return hashToken(this.key, `actor\0${token}`).toString('hex').slice(0, pseudonymLength)
  }

  record(tx: Database, audit: AuditContext, deed: Deed): Promise<void> {
    const row = this.options.policyOf(audit.action)
    return this.orNothing(
      tx,
      async (chain, state) => {
        const metadata = metadataOf(row, audit, deed, state)
        if (row.targetType !== null) await chain.approval(approvalFacts(row, audit, deed, metadata))
        if (row.command === null) return
        await chain.command({
          ...actorFacts(audit),
          action: row.command,
          commandId: deed.commandId ?? newId('cmd'),
          metadata: metadataOf(row, audit, deed),
        })
      },
      () => recordedState(tx, audit.action, deed.targetType ?? row.targetType, deed.targetId),
    )
  }

  command(tx: Database, asker: Asker, { action, commandId, metadata = {} }: CommandDeed): Promise<void> {
    return this.orNothing(tx, (chain) =>
      chain.command({ ...actorFacts(asker), action, commandId, metadata: allowed(metadata) }),
    )
  }

  /**
   * Writes the approval event of an action that changes no row, in its own transaction and before the action's answer.
   */
  note(audit: AuditContext, deed: Deed): Promise<void> {
    return this.options.db.transaction((tx) => this.record(tx, audit, deed))
  }

  /** Writes the events of one transaction to the end of this writer's chain. A refusal also undoes the action. */
  private async orNothing(
    tx: Database,
    write: (chain: ChainEnd, state: RecordedState) => Promise<void>,
    stateOf: () => Promise<RecordedState> = async () => ({}),
  ): Promise<void> {
    try {
      // Before the end of the chain is locked: it waits for other changes of the same target.
      const state = await stateOf()
      const chain = new ChainEnd(tx, this.key, await this.lockedHead(tx), this.now())
      await write(chain, state)
      const head = chain.head()
      const by = await saveHead(tx, head)
      this.ownHead.wrote(head, by)
      ifUnanswered(tx, () => this.ownHead.unanswered(by))
    } catch (error) {
      if (error instanceof Problem && error.code === 'audit_head_lost') throw error
      this.options.log.error('audit_not_written', { failure: failureName(error) })
      // The partition of this week is missing. The next call finds it.
      void this.maintain()
      throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
    }
  }

  /** Locks and returns the end of the chain. Refuses with `audit_head_lost`. */
  private async lockedHead(tx: Database): Promise<ChainHead> {
    let row = await lockHead(tx, this.writerId)
    let ordinal = 0
    if (row === null) {
      ordinal = await nextOrdinal(tx)
      // Another transaction may have written this writer's first event while this one waited for the lock.
      row = await lockHead(tx, this.writerId)
    }
    this.headLost = !(await this.ownHead.isStill(tx, row))
    if (this.headLost) throw this.lostHead()
    const fresh = { writerId: this.writerId, ordinal, keyId: this.keyId, seq: 0, mac: chainStart, lastAt: new Date(0) }
    return row ?? { ...fresh, proof: chainStart }
  }

  private lostHead(): Problem {
    this.options.log.error('audit_head_lost', { writer_id: this.writerId, ...this.ownHead.place })
    return new Problem('audit_head_lost')
  }

  private async maintain(): Promise<void> {
    const now = this.now()
    try {
      const made = ensureAuditPartitions(this.options.db, new Date(now), new Date(now + partitionsAheadMs))
      await within(maintainEveryMs, made)
    } catch (error) {
      this.options.log.warn('audit_partitions', { failure: failureName(error) })
    }
  }
}

type ApprovalFacts = Omit<Parameters<typeof insertApprovalEvent>[1], keyof ChainFacts>
type CommandFacts = Omit<Parameters<typeof insertCommandEvent>[1], keyof ChainFacts>
interface ChainFacts {
  readonly eventId: string
  readonly createdAt: Date
  readonly writerId: string
  readonly seq: number
  readonly mac: Buffer
}

/** The end of one writer's chain, which a transaction has locked. */
class ChainEnd {
  private seq: number
  private mac: Buffer
  private readonly createdAt: Date

  constructor(
    private readonly tx: Database,
    private readonly key: string,
    private readonly before: ChainHead,
    nowMs: number,
  ) {
    this.seq = before.seq
    this.mac = before.mac
    // A clock that goes back must not let a purge remove events from the middle of a chain.
    this.createdAt = new Date(Math.max(nowMs, before.lastAt.getTime()))
  }

  async approval(facts: ApprovalFacts): Promise<void> {
    await insertApprovalEvent(this.tx, this.sealed({ ...facts, ...this.next('apv') }))
  }

  async command(facts: CommandFacts): Promise<void> {
    await insertCommandEvent(this.tx, this.sealed({ ...facts, ...this.next('evt') }))
  }

  head(): ChainHead {
    const { proof: _, ...before } = this.before
    const head = { ...before, seq: this.seq, mac: this.mac, lastAt: this.createdAt }
    return { ...head, proof: headProof(this.key, head) }
  }

  private next(prefix: 'apv' | 'evt'): Omit<ChainFacts, 'mac'> {
    this.seq++
    return { eventId: newId(prefix), createdAt: this.createdAt, writerId: this.before.writerId, seq: this.seq }
  }

  private sealed<E extends Parameters<typeof eventMac>[2]>(event: E): E & { readonly mac: Buffer } {
    this.mac = eventMac(this.key, this.mac, event)
    return { ...event, mac: this.mac }
  }
}

const actorFacts = ({ actorType, actorRole, actorHashPrefix, reason, requestId }: Asker) => ({
  actorType,
  actorRole,
  actorHashPrefix,
  reason,
  requestId,
})

function approvalFacts(row: AdminRoute, audit: AuditContext, deed: Deed, metadata: AuditMetadata): ApprovalFacts {
  return {
    ...actorFacts(audit),
    action: audit.action,
    category: row.category,
    targetType: deed.targetType ?? row.targetType ?? '',
    targetId: deed.targetId,
    approverHashPrefix: audit.approverHashPrefix,
    approvalPolicy: approvalPolicyVersion,
    confirmation: audit.confirmation,
    metadata,
  }
}

function metadataOf(row: AdminRoute, audit: AuditContext, deed: Deed, state: RecordedState = {}): AuditMetadata {
  const metadata = { ...deed.metadata, ...state }
  const missing = row.reasonRequired && audit.reason === null
  return allowed(missing ? { ...metadata, reason_missing: true } : metadata)
}

/** Keeps only these fields, even if a caller with another type passes more. */
function allowed(metadata: AuditMetadata): AuditMetadata {
  const kept: Record<keyof AuditMetadata, unknown> = {
    amount_wei: metadata.amount_wei,
    dry_run: metadata.dry_run,
    older_than_days: metadata.older_than_days,
    counts: metadata.counts,
    format: metadata.format,
    window_days: metadata.window_days,
    result: metadata.result,
    reason_missing: metadata.reason_missing,
    node_state: metadata.node_state,
    model: metadata.model,
    state: metadata.state,
    prices: metadata.prices,
  }
  return Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined))
}
