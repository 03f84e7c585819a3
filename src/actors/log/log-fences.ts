import type { Database } from '../../db/client.ts'
import { type LogState, readLogState, sequencingPids } from '../../db/queries/log/log.ts'
import {
  type Fence,
  type Fences,
  type LogSource,
  readFences,
  stillWriting,
  type Writer,
} from '../../db/queries/log/sources.ts'
import { Outage } from '../../host/outage.ts'
import type { Log } from '../../log.ts'
import { secondMs } from '../../time.ts'

/** Up to where the log may take each source now; null: no further, because a transaction is open that may yet commit an entry before. */
export interface Reach {
  readonly receiptsTo: bigint | null
  readonly ledgerTo: bigint | null
}

/** Whether an open transaction holds anything back. */
export const isHeldBack = ({ receiptsTo, ledgerTo }: Reach): boolean => receiptsTo === null || ledgerTo === null

/** Whether there is more for the log than it has. */
export const hasMoved = (state: Pick<LogState, 'receiptsTo' | 'ledgerTo'>, { receiptsTo, ledgerTo }: Reach): boolean =>
  (receiptsTo ?? 0n) > state.receiptsTo || (ledgerTo ?? 0n) > state.ledgerTo

/** The most that `reachNow` waits for open transactions, ms. */
const openWaitMs = 2 * secondMs
/** They are looked at again after, ms. */
const lookMs = 20
/** A transaction that holds the log back for this long is told to the operator, ms. */
const heldToldMs = 10 * secondMs
/** Sessions that a log line names. */
const pidsMax = 10

interface FencesOptions {
  readonly db: Database
  readonly log: Log
  /** Unix ms. */
  readonly now: () => number
}

/** One source's fence. It is kept until all transactions that wrote then have ended: what the log passes over it never takes. */
class KeptFence {
  private keptMs = 0
  private isHeld = false
  private pids = ''
  private readonly outage: Outage

  constructor(
    private fence: Fence,
    source: LogSource,
    private readonly options: FencesOptions,
  ) {
    const { log, now } = options
    this.keptMs = now()
    this.outage = new Outage(
      () => log.warn('log_held_back', { source, pids: this.pids, held_ms: now() - this.keptMs }),
      () => log.info('log_goes_on', { source }),
    )
  }

  /** `open`: those of its writers who have not ended. */
  turn(next: Fence, open: readonly Writer[]): bigint | null {
    const nowMs = this.options.now()
    this.isHeld = open.length > 0
    if (!this.isHeld) {
      const { to } = this.fence
      this.fence = next
      this.keptMs = nowMs
      this.outage.worked()
      return to
    }
    this.pids = pidsOf(open)
    if (nowMs - this.keptMs >= heldToldMs) this.outage.failed(null)
    return null
  }

  current(): Fence {
    return this.fence
  }

  /** ms; 0: nothing holds it. */
  heldMs(): number {
    return this.isHeld ? this.options.now() - this.keptMs : 0
  }
}

const pidsOf = (open: readonly Writer[]): string =>
  open
    .slice(0, pidsMax)
    .map(({ pid }) => pid ?? 'prepared')
    .join(' ')

const reachOf = ({ receipts, ledger }: Fences, open: Readonly<Record<LogSource, readonly Writer[]>>): Reach => ({
  receiptsTo: open.receipts.length === 0 ? receipts.to : null,
  ledgerTo: open.ledger.length === 0 ? ledger.to : null,
})

/** How far the log may go: past no number that a transaction which is still open has drawn, and up to all others. */
export class LogFences {
  private kept: Readonly<Record<LogSource, KeptFence>> | null = null

  constructor(private readonly options: FencesOptions) {}

  /** How long an open transaction has kept this source out of the log, ms; 0: none does. */
  heldMs(source: LogSource): number {
    return this.kept?.[source].heldMs() ?? 0
  }

  /** Of the fences of the turn before. `first`: there was none, and it reaches what is there now. */
  async turn(): Promise<Reach & { readonly first: boolean }> {
    const { db } = this.options
    const [kept, now] = [this.kept, await readFences(db)]
    if (kept === null) {
      this.kept = {
        receipts: new KeptFence(now.receipts, 'receipts', this.options),
        ledger: new KeptFence(now.ledger, 'ledger', this.options),
      }
      return { ...reachOf(now, await stillWriting(db, now)), first: true }
    }
    const open = await stillWriting(db, { receipts: kept.receipts.current(), ledger: kept.ledger.current() })
    return {
      receiptsTo: kept.receipts.turn(now.receipts, open.receipts),
      ledgerTo: kept.ledger.turn(now.ledger, open.ledger),
      first: false,
    }
  }

  /** Of all that is committed now, once those who write now have ended; what one of them holds for longer is left to the turns. */
  async reachNow(): Promise<Reach> {
    const { db } = this.options
    const fences = await readFences(db)
    for (const untilMs = performance.now() + openWaitMs; ; await Bun.sleep(lookMs)) {
      const reach = reachOf(fences, await stillWriting(db, fences))
      if (!isHeldBack(reach) || performance.now() >= untilMs) return reach
    }
  }
}

/** Until when the log has all, as the looks of this gateway find it, also while each of them finds another gateway at its turn. */
export class LogProgress {
  /** When the log last had all that a look had found, Unix ms; null: none was begun. */
  private doneMs: number | null = null
  /** The first of these looks of which it is not known that the log has all that there was. */
  private behind: { readonly reach: Reach; readonly atMs: number } | null = null
  private told = { pids: '', heldMs: 0 }
  private readonly outage: Outage

  constructor(private readonly options: FencesOptions) {
    const { log } = options
    this.outage = new Outage(
      () => log.warn('log_held_back', { source: 'turn', pids: this.told.pids, held_ms: this.told.heldMs }),
      () => log.info('log_goes_on', { source: 'turn' }),
    )
  }

  /** Since the log last had all that a look had found, ms. */
  sinceMs(): number {
    return this.doneMs === null ? 0 : this.options.now() - this.doneMs
  }

  /** A look has met no other gateway at its turn. */
  ended(): void {
    this.reached(this.options.now())
  }

  private reached(atMs: number): void {
    this.doneMs = atMs
    this.behind = null
    this.outage.worked()
  }

  /**
   * After a look that met one. The other gateways' fences are older than this one's: the log may have all that there was at an earlier look, and never yet all
   * of the newest.
   */
  async met(reach: Reach): Promise<void> {
    const { db, now } = this.options
    const state = await readLogState(db)
    if (state === null) return
    const nowMs = now()
    if (this.behind !== null && !hasMoved(state, this.behind.reach)) this.reached(this.behind.atMs)
    if (hasMoved(state, reach)) this.behind ??= { reach, atMs: nowMs }
    // Of what an open transaction holds back this look says nothing.
    else if (this.behind === null) this.reached(nowMs)
    await this.tell(nowMs)
  }

  private async tell(nowMs: number): Promise<void> {
    const heldMs = nowMs - (this.behind?.atMs ?? nowMs)
    if (heldMs < heldToldMs) return
    this.told = { pids: (await sequencingPids(this.options.db)).join(' '), heldMs }
    this.outage.failed(null)
  }
}
