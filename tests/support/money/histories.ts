import { expect } from 'bun:test'
import { drizzle } from 'drizzle-orm/postgres-js'
import fc from 'fast-check'
import type postgres from 'postgres'
import { buildBatch } from '../../../src/actors/money/batch-building.ts'
import { Ledger } from '../../../src/actors/money/ledger.ts'
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
import { waitFor, waitUntil } from '../run/wait-until.ts'
import { expectSound } from './groups.ts'
import { chargeFor, fundedCustomer } from './ledger.ts'
import { testMacs } from './receipt-macs.ts'

/** What one client does, in `gateway`'s program, after so many turns of the loop, so many times. A price above the reserve is capped. */
interface Request {
  readonly kind: 'request'
  readonly turns: number
  readonly times: number
  readonly gateway: number
  readonly customer: number
  readonly reserveWei: number
  readonly priceWei: number
  readonly feeBps: number
  readonly end: 'charge' | 'charge twice' | 'charge nothing' | 'hold' | 'abort' | 'expire, then charge'
}
type Step =
  | Request
  /** The server process of some connection is ended, after so many turns of the loop. */
  | { readonly kind: 'kill'; readonly turns: number; readonly pick: number }
  /** A gateway loses all of its connections for ever, and another one takes its place. */
  | { readonly kind: 'crash'; readonly turns: number; readonly gateway: number }
  /** A customer reads its account while it pays. */
  | { readonly kind: 'read'; readonly turns: number; readonly gateway: number; readonly customer: number }
  | { readonly kind: 'batch' }
  | { readonly kind: 'decide'; readonly pick: number; readonly decision: 'accepted' | 'rejected' }
/** Steps of one round run at once. */
export type History = readonly (readonly Step[])[]

const customers = 3
const creditWei = 500n
const gateways = 2
/** Of the histories that are played at once. */
const crashing = 2
/** Longer than any wait: a lease that its gateway has forgotten is found. */
const ttlMs = 3_600_000
/** Of connections that nobody kills. */
const watcherName = 'watcher'

const request = fc.record({
  kind: fc.constant('request' as const),
  turns: fc.nat(20),
  times: fc.integer({ min: 1, max: 4 }),
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
    'charge nothing' as const,
    'hold' as const,
    'abort' as const,
    'expire, then charge' as const,
  ),
})
const step = fc.oneof(
  { weight: 12, arbitrary: request },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kill' as const), turns: fc.nat(30), pick: fc.nat(50) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('crash' as const), turns: fc.nat(60), gateway: fc.nat(gateways - 1) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('read' as const),
      turns: fc.nat(60),
      gateway: fc.nat(gateways - 1),
      customer: fc.nat(customers - 1),
    }),
  },
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

/** A gateway until it crashes. */
interface Life {
  readonly ledger: Ledger
  readonly opened: ReturnType<typeof openDatabase>
  readonly application: string
  /** Resolves at the crash. */
  readonly crashed: Promise<'crashed'>
  readonly crash: () => void
}

/** A charge whose gateway has crashed: it is written, or it is not. */
interface Unheard {
  readonly hash: string
  readonly customerId: string
  readonly wei: bigint
  readonly held: boolean
}

const log = createLog('silent', () => {})

/** Two gateways on one database, and who watches them by connections that nobody kills. */
export class HistoryWorld {
  private readonly watcher: Pick<ReturnType<typeof openDatabase>, 'db' | 'sql'>
  private readonly killer: postgres.Sql
  private lives = 0
  private readonly gateways: Life[]
  private readonly dead: Life[] = []
  private unheard: Unheard[] = []
  private readonly held: { readonly hash: string; readonly customerId: string; readonly wei: bigint }[] = []
  private readonly balances = new Map<string, bigint>()
  /** How often something was put to the test. */
  readonly seen = {
    groups: 0,
    leased: 0,
    charged: 0,
    refused: 0,
    tooLate: 0,
    kills: 0,
    crashes: 0,
    reads: 0,
    batches: 0,
    refunds: 0,
  }

  private constructor(private readonly database: TestDatabase) {
    const sql = connect(database.url, { max: 4, connection: { application_name: watcherName } })
    this.watcher = { sql, db: drizzle(sql, { casing: 'snake_case' }) }
    this.killer = connect(database.url, { max: 1, connection: { application_name: watcherName } })
    this.gateways = Array.from({ length: gateways }, () => this.begin())
  }

  static async open(): Promise<HistoryWorld> {
    const world = new HistoryWorld(await testDatabase({ connectionsMax: 2 }))
    await Promise.all(world.gateways.map(({ ledger }) => ledger.start()))
    return world
  }

  async close(): Promise<void> {
    await Promise.all(this.gateways.map(({ ledger }) => ledger.stop()))
    await expectSound(this.watcher)
    await this.countGroups()
    for (const { opened } of this.gateways) await opened.close()
    for (const sql of [this.watcher.sql, this.killer]) await sql.end()
    await this.database.drop()
  }

  /** What was not put to the test until now. */
  async unseen(): Promise<readonly string[]> {
    await this.countGroups()
    return Object.entries(this.seen).flatMap(([what, times]) => (times > 0 ? [] : [what]))
  }

  private async countGroups(): Promise<void> {
    const [row] = await this.watcher.sql<{ groups: number; leased: number }[]>`
      select count(*)::int as groups, count(reserve_seq)::int as leased from charge_groups`
    this.seen.groups = row?.groups ?? 0
    this.seen.leased = row?.leased ?? 0
  }

  /**
   * Each history has customers of its own; the n-th rounds of all of them are played at once. What crashes one crashes all, so only the first
   * histories kill and crash: else a hundred of them would leave no gateway the time to charge.
   */
  async play(...histories: readonly History[]): Promise<void> {
    const parts = await Promise.all(histories.map(async (history) => ({ history, ids: await this.fundedCustomers() })))
    const rounds = Math.max(...histories.map(({ length }) => length))
    const calm = ({ kind }: Step) => kind !== 'kill' && kind !== 'crash'
    for (let at = 0; at < rounds; at++) {
      let over = false
      const watched = this.watch(() => !over)
      const running = parts.flatMap(({ history, ids }, place) =>
        (history[at] ?? []).filter((one) => place < crashing || calm(one)).map((one) => this.run(one, ids)),
      )
      await Promise.all(running).finally(() => {
        over = true
      })
      await watched
      await this.expectModel(parts.flatMap(({ ids }) => ids))
    }
  }

  private async fundedCustomers(): Promise<readonly string[]> {
    const ids = await Promise.all(Array.from({ length: customers }, () => fundedCustomer(this.watcher, creditWei)))
    for (const id of ids) this.balances.set(id, creditWei)
    return ids
  }

  private begin(): Life {
    const application = `gateway-${this.lives++}`
    const opened = openDatabase({
      url: `${this.database.url}${this.database.url.includes('?') ? '&' : '?'}application_name=${application}`,
      connectionsMax: 3,
    })
    const ledger = new Ledger({ macs: testMacs, ...opened, log, groupFrom: 2, leases: { from: 2, ttlMs } })
    const { promise, resolve } = Promise.withResolvers<'crashed'>()
    return { ledger, opened, application, crashed: promise, crash: () => resolve('crashed') }
  }

  private at(gateway: number): Life {
    return this.gateways[gateway % gateways] as Life
  }

  /** At every moment: the books balance, and nobody is overdrawn. */
  private async watch(running: () => boolean): Promise<void> {
    do {
      const books = await readBooks(this.watcher.db)
      expect(brokenRules(books)).toEqual([])
      const overdrawn = await this.watcher
        .sql`select 1 from customers where reserved_wei + leased_wei > balance_wei or reserved_wei < 0 or leased_wei < 0`
      expect(overdrawn).toHaveLength(0)
    } while (running())
  }

  /**
   * Nothing runs: a reserve that nobody heard of is the sweep's to end, and so is the lease of a gateway that crashed. Then each customer can
   * spend all that it has, on any gateway, and reads that nothing is reserved (E11).
   */
  private async expectModel(ids: readonly string[]): Promise<void> {
    await this.hearTheDead()
    await this.sweep()
    await Promise.all(ids.map((id, at) => this.expectAccount(id, at)))
    await this.watcher.sql`update customers set unleased_until = null`
  }

  private async sweep(): Promise<void> {
    await this.untilDone(
      () => this.watcher.sql`update reservations set expires_at = now() - interval '1 s' where status = 'open'`,
    )
    for (const { ledger } of this.gateways) await this.untilDone(() => ledger.sweep())
  }

  private async expectAccount(id: string, at: number): Promise<void> {
    const balance = this.balances.get(id) ?? 0n
    const [{ ledger }, { ledger: other }] = [this.at(at), this.at(at + 1)]
    if (balance > 0n) await this.spendable(ledger, id, balance)
    for (const one of [ledger, other]) {
      const row = await this.untilDone(() => one.account(id))
      expect([row?.balanceWei, row?.reservedWei, row?.leasedWei]).toEqual([balance, 0n, 0n])
    }
  }

  /** What is given up only now, because its connection was killed, is free in a moment. */
  private async spendable(ledger: Ledger, customerId: string, amountWei: bigint): Promise<void> {
    const look = async () => {
      const reserving = Promise.resolve(ledger.reserve({ id: newId('req'), customerId, amountWei }))
      return reserving.catch(async (error: unknown) => {
        if (!(error instanceof Problem)) throw error
        await this.sweep()
        return null
      })
    }
    const all = await waitFor('all of a balance can be spent', look)
    await ledger.settle(all, chargeFor(customerId, 0n))
  }

  /** What a crashed gateway had sent is on the books or not, once its connections are gone. */
  private async hearTheDead(): Promise<void> {
    if (this.dead.length === 0) return
    const names = this.dead.splice(0).map(({ application }) => application)
    await waitUntil('no statement of a gateway that crashed', async () => {
      // One that it listens on has no statement.
      const left = await this.watcher.sql`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name in ${this.watcher.sql(names)} and state = 'idle'
        union all select true from pg_stat_activity where application_name in ${this.watcher.sql(names)}`
      return left.length === 0
    })
    for (const { hash, customerId, wei, held } of this.unheard.splice(0)) {
      const billed = await this.watcher.sql`select 1 from receipts where receipt_hash = ${hash} and billed`
      if (billed.length === 0) continue
      this.balances.set(customerId, (this.balances.get(customerId) ?? 0n) - wei)
      if (held) this.held.push({ hash, customerId, wei })
    }
    await this.watcher.sql`update money_leases set ends_at = now() - interval '1 s'`
  }

  private async run(one: Step, ids: readonly string[]): Promise<void> {
    if (one.kind === 'request') return this.client(one, ids[one.customer] ?? '')
    if (one.kind === 'kill') return this.kill(one.turns, one.pick)
    if (one.kind === 'crash') return this.crash(one.turns, one.gateway)
    if (one.kind === 'read') return this.read(one.turns, one.gateway, ids[one.customer] ?? '')
    return one.kind === 'batch' ? this.batch() : this.decide(one.pick, one.decision)
  }

  private async client(request: Request, customerId: string): Promise<void> {
    for (let at = 0; at < request.turns; at++) await turn()
    for (let time = 0; time < request.times; time++) await this.request(request, customerId)
  }

  private async request({ gateway, reserveWei, priceWei, feeBps, end }: Request, customerId: string): Promise<void> {
    const life = this.at(gateway)
    const { ledger } = life
    const wanted = { id: newId('req'), customerId, amountWei: BigInt(reserveWei) }
    const reserving = Promise.resolve(ledger.reserve(wanted)).catch((error: unknown) => {
      if (!(error instanceof Problem)) throw error
      return null
    })
    const held = await Promise.race([reserving, life.crashed])
    if (held === 'crashed') return
    if (held === null) {
      this.seen.refused++
      return
    }
    if (end === 'abort') return ledger.release(held)
    const actualWei = end === 'charge nothing' ? 0n : BigInt(priceWei)
    const { receipt } = chargeFor(customerId, actualWei)
    const charge = chargeFor(customerId, actualWei, {
      feeBps,
      receipt: { ...receipt, status: end === 'hold' ? 'held' : 'accepted' },
    })
    if (end === 'expire, then charge') {
      await this.watcher
        .sql`update reservations set expires_at = now() - interval '1 s' where reservation_id = ${held.id}`
      await this.watcher.sql`update money_leases set ends_at = now() - interval '1 s' where customer_id = ${customerId}`
      await this.untilDone(() => this.at(gateway + 1).ledger.sweep())
    }
    const whole = BigInt(Math.min(Number(actualWei), reserveWei))
    const calls = end === 'charge twice' ? [1, 2] : [1]
    const settled = await Promise.race([Promise.all(calls.map(() => ledger.settle(held, charge))), life.crashed])
    if (settled === 'crashed') {
      if (whole > 0n) this.unheard.push({ hash: charge.receipt.hash, customerId, wei: whole, held: end === 'hold' })
      return
    }
    const [first, second = first] = settled
    expect(second).toEqual(first as NonNullable<typeof first>)
    const wei = first?.chargedWei ?? 0n
    if (first?.outcome === 'closed') this.seen.tooLate++
    else expect(wei).toBe(whole)
    this.seen.charged++
    this.balances.set(customerId, (this.balances.get(customerId) ?? 0n) - wei)
    if (end === 'hold' && wei > 0n) this.held.push({ hash: charge.receipt.hash, customerId, wei })
  }

  private async read(turns: number, gateway: number, customerId: string): Promise<void> {
    for (let at = 0; at < turns; at++) await turn()
    const life = this.at(gateway)
    const row = await Promise.race([this.untilDone(() => life.ledger.account(customerId)), life.crashed])
    if (row === 'crashed' || row === null) return
    this.seen.reads++
    expect(row.reservedWei + row.leasedWei).toBeLessThanOrEqual(row.balanceWei)
  }

  private async crash(turns: number, gateway: number): Promise<void> {
    for (let at = 0; at < turns; at++) await turn()
    const life = this.at(gateway)
    const next = this.begin()
    this.gateways[gateway % gateways] = next
    await next.ledger.start()
    this.dead.push(life)
    life.crash()
    void life.opened.sql.end({ timeout: 0 })
    void life.ledger.stop()
    this.seen.crashes++
  }

  private async kill(turns: number, pick: number): Promise<void> {
    for (let at = 0; at < turns; at++) await turn()
    const found = await this.killer<{ pid: number }[]>`select a.pid from pg_stat_activity a
      where a.datname = current_database() and a.application_name <> ${watcherName}
        and (a.query like '%ledger_%' or a.query like '%money_lease%')
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

  /** Its connection may be killed, too, or it is ended for a deadlock; what it does is done once however often it is tried. */
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
