import { fromPromise, type InspectionEvent } from 'xstate'
import type { OpenDatabase } from '../../db/client.ts'
import { type Executor, prepared } from '../../db/prepared.ts'
import { receiptFacts } from '../../db/queries/jobs/job-nodes.ts'
import { deleteOldJobs } from '../../db/queries/jobs/job-upkeep.ts'
import type { ClaimedJob } from '../../db/queries/jobs/jobs.ts'
import * as rows from '../../db/queries/jobs/jobs.ts'
import type { MarkedReceipt } from '../../db/queries/money/receipts.ts'
import { type NodeId, newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import {
  type AttendOutcome,
  type JobVerdict,
  privateJobMachine,
  type SubmitOutcome,
} from '../../machines/charts/private-job.ts'
import { dayMs, minuteMs, secondMs } from '../../time.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { DueWork, dueWorkChannel, leaseLost } from '../durable/due-work.ts'
import { runToRest } from '../durable/run-to-rest.ts'
import { type ReceiptMacs, receiptSubject } from '../log/receipt-macs.ts'
import { followEnd, isTerminal } from './job-end.ts'
import { attendCommand, cancelCommand, submitCommand } from './job-node.ts'

export const jobWork = 'jobs'
/** How long a job stays with a gateway that died. The lease is renewed every third of this time. */
const jobLeaseMs = minuteMs
const renewEveryMs = 20 * secondMs
/** How long a job whose node did not answer waits for its next try. */
const unreachableMs = 2 * secondMs
const runningMax = 256
const sweepMax = 100
const sweepEveryMs = secondMs
const keysKeptMs = 30 * dayMs
const retentionEveryMs = minuteMs

/** The part of the pool that the worker needs. */
export interface JobNodes {
  /** Nodes that answer and that this gateway can reach. A drained one finishes its jobs and gets no new one. */
  reachable(): Iterable<{ readonly nodeId: NodeId; readonly drained: boolean }>
  transport(nodeId: NodeId): NodeTransport | null
}

export interface JobWorkerOptions extends Pick<OpenDatabase, 'db' | 'sql'> {
  readonly log: Log
  readonly nodes: JobNodes
  readonly inspect: (event: InspectionEvent) => void
  /** SVC_JOBS_RUNNING_PER_NODE_MAX. */
  readonly runningPerNodeMax: number
  /** SVC_JOB_RETENTION_MS. */
  readonly retentionMs: number
  readonly now: () => number
  readonly pollMs: number
  readonly macs: ReceiptMacs
  /** Receipts say when they were issued (§36). */
  readonly timed: () => boolean
}

export class JobWorker {
  private readonly work: DueWork<ClaimedJob>
  private readonly perNode = new Map<NodeId, number>()
  private readonly lookups: Executor
  private sweptMs = Number.NEGATIVE_INFINITY
  private retainedMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: JobWorkerOptions) {
    const { db, sql, log, pollMs, now } = options
    this.lookups = prepared(sql)
    this.work = new DueWork<ClaimedJob>({
      name: jobWork,
      sql,
      log,
      pollMs,
      concurrencyMax: runningMax,
      claim: (limit) => this.claim(limit),
      run: (job, signal) => this.run(job, signal),
      renew: (leases) => rows.renewJobLeases(db, leases, new Date(now() + jobLeaseMs)),
      renewEveryMs,
      sweep: () => this.sweep(),
    })
  }

  start = () => this.work.start()
  stop = () => this.work.stop()
  wake = () => this.work.wake()
  running = () => this.work.running()
  claims = () => this.work.claims()

  /** Tells the node that a job has ended without it, if this gateway can reach the node. */
  forget(job: rows.JobFacts): void {
    if (job.attempt === 0) return
    const transport = this.options.nodes.transport(job.nodeId)
    if (transport === null) return
    cancelCommand(transport, job).catch((error: unknown) => {
      this.options.log.warn('job_not_forgotten', { command_id: job.commandId, failure: failureName(error) })
    })
  }

  private async claim(limit: number) {
    const { db, nodes, runningPerNodeMax, now } = this.options
    let busy = false
    const room: rows.NodeRoom[] = []
    // Each node has its own number of places, so a node without jobs takes nothing from another one.
    for (const { nodeId, drained } of nodes.reachable()) {
      const free = Math.min(limit, runningPerNodeMax - (this.perNode.get(nodeId) ?? 0))
      if (free > 0) room.push({ nodeId, free, takesNew: !drained })
      else busy = true
    }
    const at = now()
    const leaseUntil = new Date(at + jobLeaseMs)
    const items = await rows.claimJobs(db, { room, limit, now: new Date(at), leaseUntil })
    for (const { nodeId } of items) this.perNode.set(nodeId, (this.perNode.get(nodeId) ?? 0) + 1)
    const full = room.some(({ nodeId, free }) => items.filter((job) => job.nodeId === nodeId).length === free)
    // A busy node may have more due jobs, and the end of one of its jobs makes room for the next at once.
    return { items, more: full || busy || items.length === limit }
  }

  private async run(job: ClaimedJob, signal: AbortSignal): Promise<void> {
    try {
      const rested = await this.runChart(job, signal)
      if (rested === null) await this.interrupted(job, signal)
    } finally {
      const left = (this.perNode.get(job.nodeId) ?? 1) - 1
      if (left === 0) this.perNode.delete(job.nodeId)
      else this.perNode.set(job.nodeId, left)
    }
  }

  private runChart(job: ClaimedJob, signal: AbortSignal): Promise<string | null> {
    const { db, log, inspect } = this.options
    const seen = <T>(work: Promise<T>): Promise<T> =>
      work.catch((error: unknown) => {
        log.error('job_failed', { command_id: job.commandId, failure: failureName(error) })
        throw error
      })
    const transport = this.options.nodes.transport(job.nodeId)
    const machine = privateJobMachine.provide({
      actors: {
        submit: fromPromise(({ signal: ended }) => seen(this.submit(transport, job, ended))),
        markRunning: fromPromise(() => seen(rows.markRunning(db, job.commandId, job.leaseId))),
        attend: fromPromise(({ signal: ended }) => seen(this.attend(transport, job, ended))),
        record: fromPromise(({ input }) => seen(this.record(job, input))),
      },
    })
    const context = { attempt: job.attempt, verdict: null }
    return runToRest(
      machine,
      { value: job.status, context },
      { type: 'claimed' },
      {
        id: job.commandId,
        log,
        inspect,
        signal,
      },
    )
  }

  private async submit(transport: NodeTransport | null, job: ClaimedJob, signal: AbortSignal): Promise<SubmitOutcome> {
    const envelope = await rows.encryptedRequestOf(this.options.db, job.commandId)
    if (transport === null || envelope === null) return { kind: 'unreachable' }
    return submitCommand(transport, job, envelope, { timed: this.options.timed(), signal })
  }

  private async attend(transport: NodeTransport | null, job: ClaimedJob, signal: AbortSignal): Promise<AttendOutcome> {
    const truth = await receiptFacts(this.options.db, job.nodeId)
    if (transport === null || truth === null) return { kind: 'unreachable' }
    return attendCommand(transport, job, truth, { now: this.options.now, signal })
  }

  private async record(job: ClaimedJob, verdict: JobVerdict): Promise<boolean> {
    const { db } = this.options
    const { commandId, leaseId } = job
    const now = this.options.now()
    switch (verdict.status) {
      case 'released':
        return rows.releaseJob(db, commandId, leaseId, new Date(now + unreachableMs))
      case 'queued':
        return rows.requeueJob(db, commandId, leaseId, {
          dueAt: new Date(now + verdict.delayMs),
          requestId: newId('req'),
        })
      case 'failed':
        return this.end(job, { status: 'failed', completedAt: new Date(now), errorCode: verdict.code }, null)
      case 'completed': {
        const { encryptedResponse, receiptHash, receiptText, signature, held } = verdict.result
        const receipt: MarkedReceipt = {
          mac: this.options.macs.of(receiptSubject({ hash: receiptHash, customerId: job.customerId })),
          hash: receiptHash,
          text: receiptText,
          customerId: job.customerId,
          signature,
          status: held ? 'held' : 'accepted',
        }
        const end = { status: 'completed' as const, completedAt: new Date(now), receiptHash, encryptedResponse }
        return this.end(job, end, receipt)
      }
    }
  }

  /** Writes state, event and receipt in one transaction, and nothing if the lease was lost. */
  private end(job: ClaimedJob, end: rows.JobEnd, receipt: MarkedReceipt | null): Promise<boolean> {
    return this.options.db.transaction(async (tx) => {
      const ended = await rows.endJob(tx, job.commandId, job.leaseId, end)
      if (ended === null) return false
      await followEnd(tx, ended, receipt, end.completedAt)
      return true
    })
  }

  /**
   * The job continues without this gateway. If the gateway stops, it gives the lease up; if another gateway has the
   * lease, it does nothing.
   */
  private async interrupted(job: ClaimedJob, signal: AbortSignal): Promise<void> {
    const { db, now } = this.options
    if (signal.reason !== leaseLost) {
      const released = await rows.releaseJob(db, job.commandId, job.leaseId, new Date(now()))
      if (released) await rows.announceDueWork(db, dueWorkChannel, jobWork)
      return
    }
    const current = await rows.jobByCommand(db, job.commandId)
    if (current !== null && isTerminal(current.status) && current.status !== 'completed') this.forget(current)
  }

  private async sweep(): Promise<void> {
    const { db, now, retentionMs } = this.options
    const at = now()
    if (at - this.sweptMs < sweepEveryMs) return
    this.sweptMs = at
    await this.expire(new Date(at))
    if (at - this.retainedMs < retentionEveryMs) return
    this.retainedMs = at
    const endedBefore = new Date(at - retentionMs)
    const keysBefore = new Date(at - keysKeptMs)
    for (let gone = sweepMax; gone === sweepMax; ) {
      gone = await db.transaction((tx) => deleteOldJobs(tx, { endedBefore, keysBefore, limit: sweepMax }))
    }
  }

  private async expire(now: Date): Promise<void> {
    const { db } = this.options
    // One round trip each second in place of a transaction of four, because nearly always nothing is overdue.
    if (!(await rows.isAnyOverdue(this.lookups, now))) return
    for (;;) {
      const expired = await db.transaction(async (tx) => {
        const ended = await rows.expireJobs(tx, now, sweepMax)
        for (const job of ended) await followEnd(tx, job, null, now)
        if (ended.length > 0) await rows.announceDueWork(tx, dueWorkChannel, `${jobWork}:leases`)
        return ended
      })
      for (const job of expired) this.forget(job)
      if (expired.length < sweepMax) return
    }
  }
}
