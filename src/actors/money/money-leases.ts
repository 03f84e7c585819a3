import type { DatabaseAccess } from '../../db/client.ts'
import { type Executor, prepared } from '../../db/prepared.ts'
import { type CustomerRow, getCustomer } from '../../db/queries/accounts/accounts.ts'
import { listenTo } from '../../db/queries/change-feed.ts'
import { chargesGroupedFrom } from '../../db/queries/money/charged-groups.ts'
import { type LeasedCharge, type LeasedOutcome, settleLeased } from '../../db/queries/money/leased-charges.ts'
import {
  addToLease,
  endStaleLeases,
  recallChannel,
  recallLeases,
  renewLeases,
  reserveLeased,
  takeLease,
} from '../../db/queries/money/leases.ts'
import { waitAtMost, within } from '../../deadline.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { hourMs, secondMs } from '../../time.ts'
import { GroupCommit, type GroupCommitOptions } from '../durable/group-commit.ts'
import { sharedRuns } from '../durable/shared-run.ts'
import { groupSubject, type ReceiptMacs } from '../log/receipt-macs.ts'
import { CustomerLease, type LeaseTerms } from './customer-lease.ts'

export interface MoneyLeasesOptions extends DatabaseAccess {
  readonly log: Log
  readonly macs: ReceiptMacs
  readonly terms?: Partial<LeaseTerms>
  /** Of the reservations that leased ones become, ms. */
  readonly staleMs: number
  /** As the charges of rows have them. */
  readonly groups: Omit<GroupCommitOptions<never, never>, 'commit'>
  /** Repeats until the database has answered. */
  readonly retried: <R>(work: () => Promise<R>) => Promise<R>
}

const termsDefault: LeaseTerms = { from: 9, ttlMs: 30 * secondMs, idleMs: 2 * secondMs }
/** Customers with paid requests within the last seconds. Of more, each request is a row. */
const customersMax = 50_000
const tickMs = secondMs
const sweepEveryMs = 5 * secondMs
/** Longer than a statement may take: a query may never settle. */
const answerMsMax = 20 * secondMs
const endWaitMs = 5 * secondMs
/** After a read of what is reserved, the customer's reservations are written as rows for this long. */
const pauseMs = 2 * secondMs
/** How long a refusal waits for money that gateways have leased and not reserved, ms. */
const refusalWaitMs = secondMs
/** How long a read of an account waits for the same, ms. */
const readWaitMs = 500
/** Between two looks at whether the leases have ended. */
const looks = { firstMs: 2, maxMs: 20 }

const markOf =
  (macs: ReceiptMacs) =>
  (...group: Parameters<typeof groupSubject>) =>
    macs.of(groupSubject(...group))

/** At most an hour from now, whatever a row says. */
async function groupedFromMs(db: DatabaseAccess['db']): Promise<number> {
  const [saidMs, latestMs] = [(await chargesGroupedFrom(db)).getTime(), Date.now() + hourMs]
  // `infinity` is NaN here.
  return saidMs <= latestMs ? saidMs : latestMs
}

/** The leases of money of this process (docs/decisions/0051), and the charges under them. */
export class MoneyLeases {
  private readonly statements: Executor
  private readonly terms: LeaseTerms
  private readonly customers = new Map<string, CustomerLease>()
  /** Charges under leases, of all customers. */
  readonly settles: GroupCommit<LeasedCharge, LeasedOutcome>
  private calls = 0n
  /** From when receipts stand in groups, Unix ms; null: the database has not said it yet. */
  private groupedFromMs: number | null = null
  private readonly loops: readonly Loop[]
  // Of a holder that is gone each look finds the lease until its end: a look of each request would take the database from all others.
  private readonly beforeRefusal = sharedRuns((customerId) => this.endAll(customerId, refusalWaitMs))
  private readonly beforeRead = sharedRuns((customerId) => this.endAll(customerId, readWaitMs))
  private unlisten: (() => Promise<void>) | null = null

  constructor(private readonly options: MoneyLeasesOptions) {
    this.statements = prepared(options.sql)
    this.terms = { ...termsDefault, ...options.terms }
    this.settles = new GroupCommit({
      ...options.groups,
      commit: (group) => this.commit(group),
    })
    const every = (everyMs: number, whenFailed: string, run: () => Promise<unknown>) =>
      loop({
        everyMs,
        boundMs: answerMsMax,
        run,
        onFailure: (error) => options.log.warn(whenFailed, { error: failureName(error) }),
      })
    this.loops = [
      every(tickMs, 'money_leases_not_renewed', () => this.tick()),
      every(sweepEveryMs, 'money_leases_not_ended', async () => {
        if (this.unlisten === null) await this.listen()
        await this.sweep()
      }),
    ]
  }

  /** Without the channel a recall is seen at the next tick. */
  async start(): Promise<void> {
    for (const each of this.loops) each.start()
    await this.listen()
  }

  /** Gives all leases back, as far as the database answers; those that are left end by themselves. */
  async stop(): Promise<void> {
    for (const each of this.loops) void each.stop()
    await waitAtMost(endWaitMs, Promise.all([...this.customers.values()].map((lease) => lease.end())))
    if (this.unlisten !== null) await waitAtMost(endWaitMs, this.unlisten())
  }

  /** For a request that begins: its `running` is one more until `left`. null: there are too many customers. */
  entered(customerId: string): CustomerLease | null {
    let lease = this.customers.get(customerId)
    if (lease === undefined) {
      if (this.customers.size >= customersMax) return null
      lease = this.open(customerId)
    }
    lease.running++
    return lease
  }

  /**
   * Has all leases of this customer end, here and on other gateways, and waits a second for it, or two where another caller's wait is under way. Then
   * what its row says is reserved is all that is, and no lease begins for 2 s. Look at the row again after it, also where there is no lease any more: another
   * caller's wait may have ended one since the last look.
   */
  recall(customerId: string): Promise<void> {
    return this.beforeRefusal(customerId)
  }

  /** The account, after its leases have ended, or the time for that is over. null: there is none. */
  async account(customerId: string): Promise<CustomerRow | null> {
    const { db } = this.options
    const row = await getCustomer(db, customerId)
    if (row === null || row.leasedWei === 0n) return row
    await this.beforeRead(customerId)
    return getCustomer(db, customerId)
  }

  /** Ends leases of gateways that are gone, and resolves with their number. It also runs every 5 s. */
  sweep(): Promise<number> {
    return endStaleLeases(this.statements)
  }

  counts() {
    return this.settles.counts()
  }

  private async endAll(customerId: string, waitMs: number): Promise<void> {
    const untilMs = performance.now() + waitMs
    let left = await this.ask(customerId)
    const own = this.customers.get(customerId)?.end()
    if (own !== undefined) await waitAtMost(waitMs, own)
    for (let ms = looks.firstMs; left > 0 && performance.now() < untilMs; ms = Math.min(ms * 2, looks.maxMs)) {
      await Bun.sleep(ms)
      left = await this.ask(customerId)
    }
  }

  private ask(customerId: string): Promise<number> {
    return within(answerMsMax, recallLeases(this.statements, customerId, pauseMs))
  }

  private async commit(group: readonly LeasedCharge[]): Promise<readonly LeasedOutcome[]> {
    const { db, macs } = this.options
    this.groupedFromMs ??= await groupedFromMs(db)
    const mark = Date.now() < this.groupedFromMs ? null : markOf(macs)
    return settleLeased(this.options.sql, group, { number: ++this.calls, ttlMs: this.terms.ttlMs, mark })
  }

  private open(customerId: string): CustomerLease {
    const { log, retried, staleMs } = this.options
    const leasing = (ask: typeof takeLease) => (id: string, customer: string, wei: bigint) =>
      within(answerMsMax, ask(this.statements, { id, customerId: customer, wei, ttlMs: this.terms.ttlMs }))
    const calls = {
      take: leasing(takeLease),
      add: leasing(addToLease),
      makeRows: (...[lease, rows]: Parameters<ConstructorParameters<typeof CustomerLease>[1]['makeRows']>) =>
        retried(() => within(answerMsMax, reserveLeased(this.statements, lease, rows, staleMs))),
    }
    const lease = new CustomerLease(customerId, calls, this.terms, log, () => performance.now())
    this.customers.set(customerId, lease)
    return lease
  }

  private async listen(): Promise<void> {
    const onRecall = (customerId: string) => void this.customers.get(customerId)?.end()
    this.unlisten = await listenTo(this.options.sql, recallChannel, onRecall).catch(() => null)
  }

  private async tick(): Promise<void> {
    const renewable = new Map<string, CustomerLease>()
    for (const [customerId, lease] of this.customers) {
      if (lease.isOver) this.customers.delete(customerId)
      else lease.tick()
      const { renewable: id } = lease
      if (id !== null) renewable.set(id, lease)
    }
    if (renewable.size === 0) return
    const sentAtMs = performance.now()
    for (const { id, there, renewed, recalled } of await renewLeases(
      this.statements,
      [...renewable.keys()],
      this.terms.ttlMs,
    )) {
      const lease = renewable.get(id)
      if (lease?.renewable !== id) continue
      if (!there) lease.lost(id)
      else if (recalled) void lease.end()
      else if (renewed) lease.renewed(sentAtMs)
    }
  }
}
