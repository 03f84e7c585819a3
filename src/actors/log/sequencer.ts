import type { Clock } from '../../clock.ts'
import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import { logSources } from '../../db/queries/log/sources.ts'
import { waitAtMost } from '../../deadline.ts'
import type { LogMemory } from '../../host/log-memory.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { Outage } from '../../host/outage.ts'
import { failureName, type Log } from '../../log.ts'
import { type Checkpoint, checkpointText } from '../../protocol/log/checkpoint.ts'
import { emptyRoot, type TreeHash } from '../../protocol/log/merkle-log.ts'
import { promisedWithinMs } from '../../protocol/log/promise.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { isCutOff, writeCutoff } from './cutoff.ts'
import { hasMoved, isHeldBack, LogFences, LogProgress, type Reach } from './log-fences.ts'
import { firstOrigin, signedNote } from './log-names.ts'
import { unmarkedUntil, writeMarks } from './marks.ts'
import { ReceiptGate } from './receipt-gate.ts'
import type { ReceiptMacs } from './receipt-macs.ts'
import { SeenLog } from './seen-log.ts'
import { appendLeaves } from './tree.ts'
import { writeEntries } from './write-entries.ts'

export interface SequencerOptions {
  readonly db: Database
  readonly log: Log
  /** SVC_LOG_KEY, newest first. */
  readonly keys: readonly [SigningKey, ...SigningKey[]]
  readonly macs: ReceiptMacs
  /** SVC_LOG_INTERVAL_MS. */
  readonly intervalMs: number
  /** SVC_LOG_PLAIN_UNTIL, Unix ms; 0: not set. */
  readonly plainUntilMs?: number
  /** null: of a gateway without a data folder. */
  readonly memory: LogMemory | null
  /** Unix ms. */
  readonly now?: () => number
  readonly clock?: Clock
}

/** Puts what was written into the log, in groups, beside the path of requests (§31). */
export interface Sequencer {
  start(): Promise<void>
  stop(): Promise<void>
  /** The log's name, as this gateway has last read it. */
  origin(): string
  /**
   * Everything that is committed now is in the log afterwards. A transaction that stays open keeps what it may come before out of it, after 2 s, and another
   * gateway that comes to no end with its turn keeps out all, after 5 s. Batches wait where more than a million receipts are new. Rejects without a database.
   */
  catchUp(options?: { readonly heads?: boolean }): Promise<void>
  /** The checkpoint that this log once had and does not lead to any more, or that no key of this gateway has signed; null: all is well. */
  fork(): string | null
  /** Whether a key of this gateway has signed where the database says that the log stands, and it leads on from what this gateway saw. */
  holds(tx: Database, state: rows.LogState): Promise<boolean>
  /** Whether the log does not stand any more where `fork` was found: it was named, or has come back. */
  isLeft(tx: Database): Promise<boolean>
  /** A witness has shown a checkpoint of ours that the log does not lead to. */
  exposed(note: string): void
  /**
   * Whether the log lacks something, or this gateway adds nothing to it: of a fork, or because for five minutes no look at it, also of another gateway, has
   * come to its end, or one open transaction keeps receipts or the ledger out.
   */
  stopped(): boolean
  /** Whether the log takes receipts in time, as far as this gateway knows: only then it promises so. */
  takesReceipts(): boolean
  /** Receipts and groups of them that this process has kept out of the log as forged. */
  forged(): number
  /** Leaves the fork, if the next look finds the log under a later name, or what this gateway has seen in it. */
  goOn(): void
}

/** `asked`: a caller waits for it, whether or not anything has moved. `heads`: the ends of the audit's chains are due, too. */
interface Look {
  readonly asked: boolean
  readonly heads: boolean
}
const ofTurn: Look = { asked: false, heads: false }

/** `busy`: another gateway is at it, and may come to no end. */
type Step = 'more' | 'done' | 'busy'

/** The longest time until a changed end of an audit chain is in the log. */
const headsEveryMs = minuteMs
/** What moves neither receipts nor ledger is looked for so often: payout batches, their places on the chain and statements of payees. */
const idleEveryMs = 10 * secondMs
const stopWaitMs = 10 * secondMs
/** A log that is read as a whole after an upgrade takes less. */
const stalledMs = 5 * minuteMs
/** What is promised while receipts are kept out of the log has to be in it soon after: half of the time is left, ms. */
const heldMsMax = promisedWithinMs / 2
/** The number of new entries after which old checkpoints are looked for. */
const pruneEvery = 4_096

export function createSequencer(options: SequencerOptions): Sequencer {
  return new GroupSequencer(options)
}

class GroupSequencer implements Sequencer {
  private readonly now: () => number
  private readonly turning: Loop
  private running: Promise<unknown> = Promise.resolve()
  private readonly seen: SeenLog
  private lookedMs = Number.NEGATIVE_INFINITY
  /** What has not its node's signature is bounded (`cutoff.ts`), as far as this gateway has seen. */
  private cutOff = false
  /** Until when receipts without a mark are taken, Unix ms; null: not read yet. */
  private plainUntilMs: number | null = null
  private readonly gate: ReceiptGate
  private readonly fences: LogFences
  private readonly progress: LogProgress
  private name: string

  constructor(private readonly options: SequencerOptions) {
    const { db, now = Date.now, log, clock, macs } = options
    this.now = now
    this.name = firstOrigin(options.keys)
    this.seen = new SeenLog(options)
    this.gate = new ReceiptGate({ macs, log, now })
    this.fences = new LogFences({ db, log, now })
    this.progress = new LogProgress({ db, log, now })
    this.turning = loop({
      pauseMs: options.intervalMs,
      run: () => this.turn(),
      outage: new Outage(
        (error) => log.warn('log_wait', { error: failureName(error) }),
        () => log.info('log_written_again'),
      ),
      clock,
    })
  }

  async start(): Promise<void> {
    const { db, keys } = this.options
    await rows.insertLogState(db, firstOrigin(keys), emptyRoot())
    this.name = (await rows.readLogState(db))?.origin ?? this.name
    this.seen.recall()
    this.progress.ended()
    await this.turning.startNow()
  }

  async stop(): Promise<void> {
    void this.turning.stop()
    // What was answered last is in the log before the next start, unless the database is away.
    await waitAtMost(stopWaitMs, this.catchUp())
  }

  async catchUp({ heads = false } = {}): Promise<void> {
    // Turns go on while this waits.
    const reach = await this.fences.reachNow()
    await this.alone(() => this.sequence(reach, { asked: true, heads }))
  }

  origin(): string {
    return this.name
  }

  fork(): string | null {
    return this.seen.fork()
  }

  holds(tx: Database, state: rows.LogState): Promise<boolean> {
    return this.seen.holds(tx, state)
  }

  isLeft(tx: Database): Promise<boolean> {
    return this.seen.isLeft(tx)
  }

  exposed(note: string): void {
    this.seen.exposed(note, this.name)
  }

  stopped(): boolean {
    const held = logSources.map((source) => this.fences.heldMs(source))
    return this.fork() !== null || Math.max(this.progress.sinceMs(), ...held) >= stalledMs
  }

  takesReceipts(): boolean {
    // Before the first cutoff each of them keeps out all.
    const holding = this.cutOff ? (['receipts'] as const) : logSources
    const held = holding.map((source) => this.fences.heldMs(source))
    return !this.stopped() && Math.max(this.progress.sinceMs(), ...held) < heldMsMax
  }

  forged(): number {
    return this.gate.forged()
  }

  goOn(): void {
    this.seen.goOn()
    this.cutOff = false
    this.plainUntilMs = null
    this.lookedMs = Number.NEGATIVE_INFINITY
  }

  /** One look at what is there; what was written before the look before goes into the log. */
  private turn(): Promise<void> {
    return this.alone(async () => {
      const { first, ...reach } = await this.fences.turn()
      await (first ? this.begin(reach) : this.sequence(reach, ofTurn))
    })
  }

  /** A log begins with its marks and its cutoff, at once: no receipt is issued in between. Of many receipts the rest comes later. */
  private async begin(reach: Reach): Promise<void> {
    if (!isHeldBack(reach) && !(await this.hasCutoff())) await this.sequenceOnce(reach, ofTurn)
  }

  private async hasCutoff(): Promise<boolean> {
    this.cutOff ||= await isCutOff(this.options.db)
    return this.cutOff
  }

  private alone(work: () => Promise<void>): Promise<void> {
    const turn = this.running.then(work)
    this.running = turn.catch(() => {})
    return turn
  }

  private async sequence(reach: Reach, look: Look): Promise<void> {
    // A first cutoff bounds all that is there, and comes before all else.
    if (isHeldBack(reach) && !(await this.hasCutoff())) return
    if (this.fork() !== null && (await this.isLeft(this.options.db))) this.goOn()
    let step: Step = 'more'
    while (step === 'more' && this.fork() === null) step = await this.sequenceOnce(reach, look)
    if (step === 'busy') await this.progress.met(reach)
    else this.progress.ended()
  }

  private async sequenceOnce(reach: Reach, look: Look): Promise<Step> {
    const { db } = this.options
    const state = await rows.readLogState(db)
    this.name = state?.origin ?? this.name
    if (state === null || !(look.asked || this.isDue(state, reach))) return 'done'
    const written = await db.transaction((tx) => this.append(tx, reach, look))
    if (written === 'busy') return 'busy'
    if (written === null) return 'done'
    this.lookedMs = this.now()
    if (written.note !== null) this.seen.remember(written.note, true)
    this.seen.keep()
    return written.more ? 'more' : 'done'
  }

  private isDue(state: rows.LogState, reach: Reach): boolean {
    return hasMoved(state, reach) || this.seen.note() === null || this.now() - this.lookedMs >= idleEveryMs
  }

  /** `busy`: another gateway is at it. null: the log is not the one that was seen. */
  private async append(tx: Database, reach: Reach, look: Look) {
    if (!(await (look.asked ? rows.waitForSequencer(tx) : rows.lockSequencer(tx)))) return 'busy'
    const found = await rows.readLogState(tx)
    if (found === null || !(await this.holds(tx, found))) return null
    const { state, untilMs } = await this.withMarks(tx, found)
    const plainUntilMs = Math.max(untilMs, this.options.plainUntilMs ?? 0)
    const at = new Date(this.now())
    const heads = look.heads || at.getTime() - (state.headsAt?.getTime() ?? 0) >= headsEveryMs
    const { leaves, more, ...reached } = await writeEntries(tx, state, reach, heads, {
      gate: this.gate,
      plainUntilMs,
    })
    const headsAt = heads ? at : state.headsAt
    const { size, root } = await this.grow(tx, state, leaves, !more)
    await rows.saveLogState(tx, { ...state, ...reached, headsAt, size, root: Buffer.from(root) })
    if (size === found.size) return { note: null, more: false }
    const note = await this.sign(tx, { origin: state.origin, size, root })
    if (Math.floor(size / pruneEvery) > Math.floor(found.size / pruneEvery)) await rows.pruneCheckpoints(tx)
    return { note, more }
  }

  private async sign(tx: Database, checkpoint: Checkpoint): Promise<string> {
    const { origin, size } = checkpoint
    const note = signedNote(checkpointText(checkpoint), origin, this.options.keys)
    await rows.saveCheckpoint(tx, origin, size, note)
    return note
  }

  /** The log says first until when it takes receipts without a mark. */
  private async withMarks(tx: Database, state: rows.LogState) {
    this.plainUntilMs ??= await unmarkedUntil(tx, state)
    if (this.plainUntilMs !== null) return { state, untilMs: this.plainUntilMs }
    // Kept in memory when it is read from the log: this transaction may be lost.
    const { untilMs, size, root } = await writeMarks(tx, state, this.now())
    return { state: { ...state, size, root: Buffer.from(root) }, untilMs }
  }

  /** `whole`: the log has all that was written, so that its first cutoff bounds all of it. */
  private async grow(tx: Database, state: rows.LogState, leaves: readonly TreeHash[], whole: boolean) {
    const root = leaves.length === 0 ? state.root : await appendLeaves(tx, state.size, leaves)
    const size = state.size + leaves.length
    if (this.cutOff || !whole) return { size, root }
    this.cutOff = await isCutOff(tx)
    return this.cutOff ? { size, root } : { size: size + 1, root: await writeCutoff(tx, size, root) }
  }
}
