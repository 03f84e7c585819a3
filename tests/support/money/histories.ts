import { expect } from 'bun:test'
import { drizzle } from 'drizzle-orm/postgres-js'
import fc from 'fast-check'
import type postgres from 'postgres'
import { buildBatch } from '../../../src/actors/money/batch-building.ts'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import type { Reservation } from '../../../src/actors/money/reservation.ts'
import { connect, openDatabase } from '../../../src/db/client.ts'
import { readBooks } from '../../../src/db/queries/money/ledger-proof.ts'
import { lockBuilder, payablePayouts } from '../../../src/db/queries/money/payout-batches.ts'
import { decideReceipt } from '../../../src/db/queries/money/receipt-decisions.ts'
import { Problem } from '../../../src/errors.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { brokenRules } from '../../../src/machines/rules/books.ts'
import { type TestDatabase, testDatabase } from '../run/postgres.ts'
import { turn } from '../run/turn.ts'
import { expectSound } from './groups.ts'
import { chargeFor, fundedCustomer } from './ledger.ts'
import { testMacs } from './receipt-macs.ts'

/** What one client does, in `gateway`'s program. A price above the reserve is capped. */
interface Request {
  readonly kind: 'request'
  readonly gateway: number
  readonly customer: number
  readonly reserveWei: number
  readonly priceWei: number
  readonly feeBps: number
  readonly end: 'charge' | 'charge twice' | 'hold' | 'abort' | 'expire, then charge'
}
type Step =
  | Request
  /** The server process of some connection is ended, after so many turns of the loop. */
  | { readonly kind: 'kill'; readonly turns: number; readonly pick: number }
  | { readonly kind: 'batch' }
  | { readonly kind: 'decide'; readonly pick: number; readonly decision: 'accepted' | 'rejected' }
/** Steps of one round run at once. */
export type History = readonly (readonly Step[])[]

const customers = 3
const creditWei = 500n
const gateways = 2
/** Of connections that nobody kills. */
const watcherName = 'watcher'

const request = fc.record({
  kind: fc.constant('request' as const),
  gateway: fc.nat(gateways - 1),
  customer: fc.nat(customers - 1),
  reserveWei: fc.integer({ min: 1, max: 60 }),
  priceWei: fc.integer({ min: 0, max: 80 }),
  feeBps: fc.constantFrom(0, 1, 1_000, 9_999, 10_000),
  end: fc.constantFrom(
    'charge' as const,
    'charge' as const,
    'charge' as const,
    'charge twice' as const,
    'hold' as const,
    'abort' as const,
    'expire, then charge' as const,
  ),
})
const step = fc.oneof(
  { weight: 12, arbitrary: request },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kill' as const), turns: fc.nat(30), pick: fc.nat(50) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('batch' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('decide' as const),
      pick: fc.nat(20),
      decision: fc.constantFrom('accepted' as const, 'rejected' as const),
    }),
  },
)
export const histories: fc.Arbitrary<History> = fc.array(fc.array(step, { minLength: 1, maxLength: 24 }), {
  minLength: 1,
  maxLength: 4,
})

/** Two gateways on one database, and who watches them by connections that nobody kills. */
export class HistoryWorld {
  private readonly watcher: Pick<ReturnType<typeof openDatabase>, 'db' | 'sql'>
  private readonly killer: postgres.Sql
  private readonly opened: ReturnType<typeof openDatabase>[]
  private readonly ledgers: readonly Ledger[]
  private readonly held: { readonly hash: string; readonly customerId: string; readonly wei: bigint }[] = []
  private readonly balances = new Map<string, bigint>()
  /** How often something was put to the test. */
  readonly seen = { groups: 0, charged: 0, refused: 0, tooLate: 0, kills: 0, batches: 0, refunds: 0 }

  private constructor(private readonly database: TestDatabase) {
    const sql = connect(database.url, { max: 4, connection: { application_name: watcherName } })
    this.watcher = { sql, db: drizzle(sql, { casing: 'snake_case' }) }
    this.killer = connect(database.url, { max: 1, connection: { application_name: watcherName } })
    this.opened = Array.from({ length: gateways }, () => openDatabase({ url: database.url, connectionsMax: 3 }))
    const log = createLog('silent', () => {})
    this.ledgers = this.opened.map((own) => new Ledger({ macs: testMacs, ...own, log, groupFrom: 2 }))
  }

  static async open(): Promise<HistoryWorld> {
    return new HistoryWorld(await testDatabase({ connectionsMax: 2 }))
  }

  async close(): Promise<void> {
    await expectSound(this.watcher)
    const [row] = await this.watcher.sql<{ groups: number }[]>`select count(*)::int as groups from charge_groups`
    this.seen.groups = row?.groups ?? 0
    for (const one of this.opened) await one.close()
    for (const sql of [this.watcher.sql, this.killer]) await sql.end()
    await this.database.drop()
  }

  async play(history: History): Promise<void> {
    const ids = await Promise.all(Array.from({ length: customers }, () => fundedCustomer(this.watcher, creditWei)))
    for (const id of ids) this.balances.set(id, creditWei)
    for (const round of history) {
      let running = true
      const watched = this.watch(() => running)
      await Promise.all(round.map((one) => this.run(one, ids))).finally(() => {
        running = false
      })
      await watched
      await this.expectModel(ids)
    }
  }

  /** At every moment: the books balance, and nobody is overdrawn. */
  private async watch(running: () => boolean): Promise<void> {
    do {
      const books = await readBooks(this.watcher.db)
      expect(brokenRules(books)).toEqual([])
      const overdrawn = await this.watcher
        .sql`select 1 from customers where reserved_wei > balance_wei or reserved_wei < 0`
      expect(overdrawn).toHaveLength(0)
    } while (running())
  }

  /** What a customer reads of itself (E11). Nothing runs: a reserve that nobody heard of is the sweep's to end. */
  private async expectModel(ids: readonly string[]): Promise<void> {
    await this.watcher.sql`update reservations set expires_at = now() - interval '1 s' where status = 'open'`
    for (const ledger of this.ledgers) await this.untilDone(() => ledger.sweep())
    for (const id of ids) {
      const [row] = await this.watcher.sql<{ balance: string; reserved: string }[]>`
        select balance_wei::text as balance, reserved_wei::text as reserved from customers where customer_id = ${id}`
      expect([row?.balance, row?.reserved]).toEqual([String(this.balances.get(id)), '0'])
    }
  }

  private run(one: Step, ids: readonly string[]): Promise<void> {
    if (one.kind === 'request') return this.request(one, ids[one.customer] ?? '')
    if (one.kind === 'kill') return this.kill(one.turns, one.pick)
    return one.kind === 'batch' ? this.batch() : this.decide(one.pick, one.decision)
  }

  private async request({ gateway, reserveWei, priceWei, feeBps, end }: Request, customerId: string): Promise<void> {
    const ledger = this.ledgers[gateway] as Ledger
    const wanted = { id: newId('req'), customerId, amountWei: BigInt(reserveWei) }
    let held: Reservation
    try {
      held = await ledger.reserve(wanted)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      this.seen.refused++
      return
    }
    if (end === 'abort') return ledger.release(held)
    const { receipt } = chargeFor(customerId, BigInt(priceWei))
    const charge = chargeFor(customerId, BigInt(priceWei), {
      feeBps,
      receipt: { ...receipt, status: end === 'hold' ? 'held' : 'accepted' },
    })
    if (end === 'expire, then charge') {
      await this.watcher
        .sql`update reservations set expires_at = now() - interval '1 s' where reservation_id = ${held.id}`
      await this.untilDone(() => (this.ledgers[(gateway + 1) % gateways] as Ledger).sweep())
    }
    const other = this.ledgers[(gateway + 1) % gateways] as Ledger
    const tellers = end === 'charge twice' ? [ledger, other] : [ledger]
    const [first, second = first] = await Promise.all(tellers.map((teller) => teller.settle(held, charge)))
    expect(second).toEqual(first as NonNullable<typeof first>)
    const wei = first?.chargedWei ?? 0n
    if (first?.outcome === 'closed') this.seen.tooLate++
    else expect(wei).toBe(BigInt(Math.min(priceWei, reserveWei)))
    this.seen.charged++
    this.balances.set(customerId, (this.balances.get(customerId) ?? 0n) - wei)
    if (end === 'hold' && wei > 0n) this.held.push({ hash: charge.receipt.hash, customerId, wei })
  }

  private async kill(turns: number, pick: number): Promise<void> {
    for (let at = 0; at < turns; at++) await turn()
    const found = await this.killer<{ pid: number }[]>`select a.pid from pg_stat_activity a
      where a.datname = current_database() and a.application_name <> ${watcherName} and a.query like '%ledger_%'
      order by a.state = 'active' desc, a.pid`
    const busy = found[pick % Math.max(1, found.length)]
    if (busy === undefined) return
    await this.killer`select pg_terminate_backend(${busy.pid})`
    this.seen.kills++
  }

  private async batch(): Promise<void> {
    const built = await this.untilDone(() =>
      this.watcher.db.transaction(async (tx) => {
        await lockBuilder(tx)
        const pending = await payablePayouts(tx, 5)
        return buildBatch(
          tx,
          pending.map((one) => ({ ...one, payee: `0x${'ab'.repeat(20)}` })),
          false,
        )
      }),
    )
    if (built.batch !== null) this.seen.batches++
  }

  private async decide(pick: number, decision: 'accepted' | 'rejected'): Promise<void> {
    const [one] = this.held.splice(pick % Math.max(1, this.held.length), 1)
    if (one === undefined) return
    const outcome = await this.untilDone(() =>
      this.watcher.db.transaction((tx) => decideReceipt(tx, one.hash, decision, newId('led'))),
    )
    expect(outcome).toBe(decision === 'rejected' ? one.wei : 0n)
    if (decision === 'accepted') return
    this.seen.refunds++
    this.balances.set(one.customerId, (this.balances.get(one.customerId) ?? 0n) + one.wei)
  }

  /** Its connection may be killed, too; what it does is done once however often it is tried. */
  private async untilDone<R>(work: () => Promise<R>): Promise<R> {
    for (let tries = 1; ; tries++) {
      try {
        return await work()
      } catch (error) {
        if (tries === 20) throw error
        await turn()
      }
    }
  }
}
