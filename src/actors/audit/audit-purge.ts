import type { OpenDatabase } from '../../db/client.ts'
import * as rows from '../../db/queries/audit/audit-purge.ts'
import { Problem } from '../../errors.ts'
import { loop } from '../../host/loop.ts'
import { newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { purgeConfirmation } from '../../protocol/wire/admin/audit.ts'
import { dayMs, hourMs } from '../../time.ts'
import { chainKeyId, tombstoneProof } from './audit-chain.ts'
import type { AuditContext, AuditTrail } from './audit-context.ts'

export type { PurgeCounts } from '../../db/queries/audit/audit-purge.ts'

export interface PurgeInput {
  readonly olderThanDays: number
  readonly dryRun: boolean
}

export interface PurgeReport {
  readonly status: 'dry_run' | 'purged'
  readonly eligible: rows.PurgeCounts
  /** How many events were removed. All are zero after a dry run. */
  readonly purged: rows.PurgeCounts
  readonly cutoff: Date
  /** When a dry run counted. */
  readonly purgedAt: Date
}

export interface AuditPurgeOptions {
  readonly database: OpenDatabase
  readonly trail: AuditTrail
  readonly log: Log
  /** SVC_AUDIT_KEY, newest first. */
  readonly keys: readonly string[]
  /** SVC_AUDIT_MIN_RETENTION_DAYS. */
  readonly retentionDaysMin: number
  readonly now?: () => number
}

const action = 'audit.retention.purge'
/** How many rows one transaction removes in the week that the cutoff divides. It holds its locks for about 50 ms. */
const rowsAtOnce = 5_000
const resumeEveryMs = hourMs
const kinds = ['access', 'command', 'approval'] as const
const nothing: rows.PurgeCounts = { access: 0, command: 0, approval: 0 }

/** Removes old events of the audit (§16). */
export class AuditPurge {
  private readonly now: () => number
  private readonly resuming = loop({ everyMs: resumeEveryMs, run: () => this.resume() })
  private stopped = false

  constructor(private readonly options: AuditPurgeOptions) {
    this.now = options.now ?? Date.now
  }

  /** Finishes an interrupted purge now and later. Never rejects. */
  async start(): Promise<void> {
    void this.resuming.startNow()
  }

  /** A purge that runs stops at its next step. The next start continues it. */
  async stop(): Promise<void> {
    this.stopped = true
    await this.resuming.stop()
  }

  /**
   * Refuses with `confirmation_required`, `invalid_request` (fewer days than SVC_AUDIT_MIN_RETENTION_DAYS) or
   * `invalid_state` (another purge runs). What a failure leaves half-done is finished by the next start, at the latest
   * an hour later.
   */
  async run(input: PurgeInput, audit: AuditContext): Promise<PurgeReport> {
    const { retentionDaysMin } = this.options
    if (input.olderThanDays < retentionDaysMin) {
      const detail = `older_than_days: this gateway keeps events for at least ${retentionDaysMin} days`
      throw new Problem('invalid_request', { param: 'older_than_days', detail })
    }
    const at = new Date(this.now())
    const cutoff = new Date(at.getTime() - input.olderThanDays * dayMs)
    if (input.dryRun) return this.dryRun(input, cutoff, at, audit)
    if (audit.confirmation === null) {
      const detail = `confirm must be exactly ${purgeConfirmation}`
      throw new Problem('confirmation_required', { param: 'confirm', detail })
    }
    const report = await rows.asOnlyPurge(this.options.database.sql, async (session) => {
      await this.finishOpen(session)
      const run = await this.begin(input, cutoff, at, audit)
      return reportOf(await this.finish(session, run))
    })
    if (report === null) throw new Problem('invalid_state', { detail: 'Another purge is running' })
    return report
  }

  private async dryRun(input: PurgeInput, cutoff: Date, at: Date, audit: AuditContext): Promise<PurgeReport> {
    const eligible = await this.options.database.db.transaction(async (tx) => {
      const counts = await rows.countEligible(tx, cutoff)
      const metadata = { dry_run: true, older_than_days: input.olderThanDays, counts, result: 'dry_run' }
      await this.options.trail.record(tx, audit, { targetId: null, metadata })
      return counts
    })
    return { status: 'dry_run', eligible, purged: nothing, cutoff, purgedAt: at }
  }

  /** Counts the events, records the purge and writes the tombstones before the first row is removed. */
  private begin(input: PurgeInput, cutoff: Date, at: Date, audit: AuditContext): Promise<rows.PurgeRun> {
    const { database, trail } = this.options
    return database.db.transaction(async (tx) => {
      const eligible = await rows.countEligible(tx, cutoff)
      const { action: _, ...asker } = audit
      const run: rows.PurgeRun = {
        runId: newId('run'),
        status: 'running',
        olderThanDays: input.olderThanDays,
        cutoff,
        asker,
        eligibleAccess: eligible.access,
        eligibleCommand: eligible.command,
        eligibleApproval: eligible.approval,
        purgedAccess: 0,
        purgedCommand: 0,
        purgedApproval: 0,
        startedAt: at,
        finishedAt: null,
      }
      await rows.insertPurgeRun(tx, run)
      await rows.insertTombstones(tx, this.tombstones(await rows.lastBefore(tx, cutoff), run))
      const metadata = { dry_run: false, older_than_days: input.olderThanDays, counts: eligible, result: 'started' }
      await trail.record(tx, audit, { targetId: run.runId, metadata })
      return run
    })
  }

  private tombstones(ends: Awaited<ReturnType<typeof rows.lastBefore>>, { runId, startedAt }: rows.PurgeRun) {
    const key = this.options.keys[0] ?? ''
    return ends.map((end) => {
      const stone = { ...end, runId, purgedAt: startedAt, keyId: chainKeyId(key) }
      return { ...stone, proof: tombstoneProof(key, stone) }
    })
  }

  /** Continues from what the database shows, however much an earlier run has done. */
  private async finish(session: rows.PurgeSession, run: rows.PurgeRun): Promise<rows.PurgeRun> {
    for (const kind of kinds) await this.purgeTable(session, run, kind)
    await this.goOn(session)
    const { database, trail } = this.options
    return database.db.transaction(async (tx) => {
      const ended = await rows.endPurgeRun(tx, run.runId, new Date(this.now()))
      const metadata = {
        dry_run: false,
        older_than_days: run.olderThanDays,
        counts: purgedOf(ended),
        result: 'purged',
      }
      const asker = run.asker as Omit<AuditContext, 'action'>
      await trail.record(tx, { ...asker, action }, { targetId: run.runId, metadata })
      return ended
    })
  }

  private async purgeTable(session: rows.PurgeSession, run: rows.PurgeRun, kind: rows.PurgedKind): Promise<void> {
    const { db } = this.options.database
    for (const partition of await rows.partitionsOf(db, kind)) {
      await this.goOn(session)
      if (partition.until <= run.cutoff) {
        if (partition.state !== 'detached') await session.detach(kind, partition)
        await rows.dropPartition(db, run.runId, kind, partition)
      } else if (partition.from < run.cutoff) {
        while ((await rows.deleteBefore(db, run, kind, partition, rowsAtOnce)) > 0) await this.goOn(session)
      }
    }
  }

  /** Between two steps. Rejects if the gateway stops, or another purge may run. */
  private async goOn(session: rows.PurgeSession): Promise<void> {
    if (this.stopped) throw new Problem('service_unavailable')
    await session.held()
  }

  private async finishOpen(session: rows.PurgeSession): Promise<void> {
    for (const run of await rows.openPurgeRuns(this.options.database.db)) await this.finish(session, run)
  }

  private async resume(): Promise<void> {
    const { database, log } = this.options
    try {
      if ((await rows.openPurgeRuns(database.db)).length === 0) return
      await rows.asOnlyPurge(database.sql, (session) => this.finishOpen(session))
      log.info('audit_purge_resumed')
    } catch (error) {
      log.warn('audit_purge_left', { failure: failureName(error) })
    }
  }
}

const purgedOf = (run: rows.PurgeRun): rows.PurgeCounts => ({
  access: run.purgedAccess,
  command: run.purgedCommand,
  approval: run.purgedApproval,
})

function reportOf(run: rows.PurgeRun): PurgeReport {
  return {
    status: 'purged',
    eligible: { access: run.eligibleAccess, command: run.eligibleCommand, approval: run.eligibleApproval },
    purged: purgedOf(run),
    cutoff: run.cutoff,
    purgedAt: run.finishedAt ?? run.startedAt,
  }
}
