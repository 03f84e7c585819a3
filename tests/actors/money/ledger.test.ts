import { afterAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Charge } from '../../../src/actors/money/charge.ts'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import type { Reservation } from '../../../src/actors/money/reservation.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { ledgerPage } from '../../../src/db/queries/money/ledger-pages.ts'
import { Problem } from '../../../src/errors.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { chargeFor, expectBooksBalance, fundedCustomer } from '../../support/money/ledger.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { turn } from '../../support/run/turn.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const log = createLog('silent', () => {})

afterAll(async () => {
  await expectBooksBalance(database.db)
})
const database = await fixture(testDatabase({ connectionsMax: 8 }))
const ledger = await fixture(new Ledger({ macs: testMacs, ...database, log }))

const customer = (wei: bigint) => fundedCustomer(database, wei)
const reserve = async (customerId: string, amountWei: bigint, id: string = newId('req')) =>
  ledger.reserve({ id, customerId, amountWei })
const codeOf = async (refused: Promise<unknown>) => {
  const error = await refused.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  return error instanceof Problem ? error.code : error
}
const amounts = async (customerId: string) => {
  const [row] = await database.sql<{ b: string; r: string }[]>`select balance_wei::text b, reserved_wei::text r
    from customers where customer_id = ${customerId}`
  return { balance: BigInt(row?.b ?? -1), reserved: BigInt(row?.r ?? -1) }
}
const entries = async (customerId: string) =>
  (await ledgerPage(database.db, { customerId, from: new Date(0), to: null }, null, 1_000)).toReversed()
/** Until the release that nobody awaits is written. */
const released = async () => {
  await waitUntil('nothing waits', () => ledger.state().waiting === 0)
  await ledger.stop()
}

describe('§13 quote → settle', () => {
  test('reserve, settle for less, release the rest: each with the amounts after it', async () => {
    const id = await customer(1_000n)
    const held = await reserve(id, 300n)
    expect(await amounts(id)).toEqual({ balance: 1_000n, reserved: 300n })
    const charge = chargeFor(id, 200n)
    expect(await ledger.settle(held, charge)).toEqual({ outcome: 'settled', chargedWei: 200n })
    expect(await amounts(id)).toEqual({ balance: 800n, reserved: 0n })
    const rows = await entries(id)
    expect(
      rows.map((row) => [row.kind, row.amountWei, row.balanceAfterWei, row.reservedAfterWei, row.receiptHash]),
    ).toEqual([
      ['admin_credit', 1_000n, 1_000n, 0n, null],
      ['reserve', 300n, 1_000n, 300n, null],
      ['debit', 200n, 800n, 100n, charge.receipt.hash],
      ['release', 100n, 800n, 0n, charge.receipt.hash],
    ])
    const [payout] = await database.sql`select * from payouts where receipt_hash = ${charge.receipt.hash}`
    expect(payout).toMatchObject({ node_id: 'node_1', amount_wei: '180', gross_wei: '200', held: false })
    const [fee] = await database.sql`select * from protocol_fees where receipt_hash = ${charge.receipt.hash}`
    expect(fee).toMatchObject({ amount_wei: '20' })
    const [receipt] = await database.sql`select * from receipts where receipt_hash = ${charge.receipt.hash}`
    expect(receipt).toMatchObject({ billed: true, status: 'accepted' })
  })

  test('more than was reserved is never debited', async () => {
    const id = await customer(1_000n)
    expect(await ledger.settle(await reserve(id, 300n), chargeFor(id, 900n))).toMatchObject({ chargedWei: 300n })
    expect(await amounts(id)).toEqual({ balance: 700n, reserved: 0n })
  })

  test('a failure releases all', async () => {
    const id = await customer(10n)
    ledger.release(await reserve(id, 10n))
    await released()
    expect(await amounts(id)).toEqual({ balance: 10n, reserved: 0n })
    expect((await entries(id)).map(({ kind }) => kind)).toEqual(['admin_credit', 'reserve', 'release'])
  })

  test('what is not there cannot be reserved, and of many at once as much as fits', async () => {
    const id = await customer(100n)
    expect(await codeOf(reserve(id, 101n))).toBe('insufficient_funds')
    const tries = await Promise.allSettled([70n, 40n, 30n, 1n].map((amount) => reserve(id, amount)))
    expect(tries.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
    expect(await amounts(id)).toEqual({ balance: 100n, reserved: 100n })
  })

  test('saying it again changes nothing', async () => {
    const id = await customer(100n)
    const held = await reserve(id, 60n, 'req_again')
    await reserve(id, 60n, 'req_again')
    expect(await amounts(id)).toMatchObject({ reserved: 60n })
    const charge = chargeFor(id, 50n)
    await ledger.settle(held, charge)
    expect(await ledger.settle(held, charge)).toMatchObject({ outcome: 'settled', chargedWei: 50n })
    expect(await ledger.settle(held, chargeFor(id, 10n))).toEqual({ outcome: 'closed', chargedWei: 0n })
    expect(await amounts(id)).toEqual({ balance: 50n, reserved: 0n })
  })

  test('a reservation that nobody renews is released after its time; a late charge debits nothing', async () => {
    const id = await customer(100n)
    const lost = new Ledger({ macs: testMacs, ...database, log, staleMs: 0 })
    const held = await lost.reserve({ id: newId('req'), customerId: id, amountWei: 100n })
    // Its own gateway still has it open and does not sweep it.
    expect(await lost.sweep()).toBe(0)
    expect(await ledger.sweep()).toBe(1)
    expect(await amounts(id)).toEqual({ balance: 100n, reserved: 0n })
    const charge = chargeFor(id, 100n)
    expect(await lost.settle(held, charge)).toEqual({ outcome: 'closed', chargedWei: 0n })
    const [receipt] = await database.sql`select billed from receipts where receipt_hash = ${charge.receipt.hash}`
    expect(receipt).toEqual({ billed: false })
    expect(ledger.state().stale).toBeGreaterThan(0)
  })

  test('a reservation that the database lost in a crash is made again: the work is charged once, or not for more than is left', async () => {
    const id = await customer(100n)
    const lost = (amountWei: bigint) => ({ id: newId('req'), customerId: id, amountWei })
    const held = lost(60n)
    const charge = chargeFor(id, 50n, { receipt: { ...chargeFor(id, 50n).receipt, status: 'held' } })
    expect(await ledger.settle(held, charge)).toEqual({ outcome: 'settled', chargedWei: 50n })
    expect(await ledger.settle(held, charge)).toEqual({ outcome: 'settled', chargedWei: 50n })
    expect(await amounts(id)).toEqual({ balance: 50n, reserved: 0n })
    const stored = async (hash: string) =>
      (await database.sql`select billed, status from receipts where receipt_hash = ${hash}`)[0]
    expect(await stored(charge.receipt.hash)).toEqual({ billed: true, status: 'held' })
    const more = chargeFor(id, 51n)
    expect(await ledger.settle(lost(51n), more)).toEqual({ outcome: 'closed', chargedWei: 0n })
    expect(await stored(more.receipt.hash)).toEqual({ billed: false, status: 'accepted' })
    expect(await amounts(id)).toEqual({ balance: 50n, reserved: 0n })
  })
})

describe('§13 constraints of the tables', () => {
  const refused = async (statement: Promise<unknown>) => {
    const error = await statement.then(
      () => null,
      (thrown: unknown) => thrown as { code?: string },
    )
    return error?.code
  }
  test('0 ≤ reserved ≤ balance, no amount of 0, settle ≤ reserve, one of each kind per reservation', async () => {
    const { sql } = database
    const id = await customer(100n)
    const held = await reserve(id, 50n)
    expect(await refused(sql`update customers set reserved_wei = 101 where customer_id = ${id}`)).toBe('23514')
    expect(await refused(sql`update customers set reserved_wei = -1 where customer_id = ${id}`)).toBe('23514')
    expect(await refused(sql`update customers set balance_wei = 49 where customer_id = ${id}`)).toBe('23514')
    expect(await refused(sql`update customers set balance_wei = 2::numeric ^ 256 where customer_id = ${id}`)).toBe(
      '23514',
    )
    expect(
      await refused(
        sql`update reservations set status = 'settled', settled_wei = 51 where reservation_id = ${held.id}`,
      ),
    ).toBe('23514')
    const insert = (amount: number, reservation: string, kind: string) =>
      refused(sql`insert into ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei,
        reserved_after_wei, reservation_id) values (${newId('led')}, ${id}, ${kind}, ${amount}, 100, 50, ${reservation})`)
    expect(await insert(0, 'x', 'reserve')).toBe('23514')
    expect(await insert(-1, 'x', 'reserve')).toBe('23514')
    expect(await insert(1, held.id, 'reserve')).toBe('23505')
  })

  test('the ledger is append-only', async () => {
    const { sql } = database
    await customer(1n)
    expect(await refused(sql`update ledger_entries set amount_wei = 2`)).toBe('23001')
    expect(await refused(sql`delete from ledger_entries`)).toBe('23001')
    expect(await refused(sql`truncate ledger_rows`)).toBe('23001')
  })
})

type Step =
  | { readonly kind: 'reserve'; readonly who: number; readonly wei: number }
  | { readonly kind: 'settle'; readonly at: number; readonly wei: number; readonly bps: number }
  | { readonly kind: 'release'; readonly at: number }

test('whatever is done in whatever order, the books are those of a model kept by hand', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('reserve' as const), who: fc.nat(1), wei: fc.integer({ min: 1, max: 60 }) }),
    fc.record({
      kind: fc.constant('settle' as const),
      at: fc.nat(20),
      wei: fc.integer({ min: 0, max: 80 }),
      bps: fc.integer({ min: 0, max: 10_000 }),
    }),
    fc.record({ kind: fc.constant('release' as const), at: fc.nat(20) }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps: readonly Step[]) => {
      const ids = [await customer(100n), await customer(100n)]
      const model = ids.map(() => ({ balance: 100n, reserved: 0n }))
      const open: { readonly held: Reservation; readonly who: number }[] = []
      for (const now of steps) {
        if (now.kind === 'reserve') {
          const own = model[now.who] ?? { balance: 0n, reserved: 0n }
          const fits = own.balance - own.reserved >= BigInt(now.wei)
          const tried = reserve(ids[now.who] ?? '', BigInt(now.wei))
          if (!fits) expect(await codeOf(tried)).toBe('insufficient_funds')
          else {
            open.push({ held: await tried, who: now.who })
            own.reserved += BigInt(now.wei)
          }
          continue
        }
        const [taken] = open.splice(now.at % Math.max(1, open.length), 1)
        if (taken === undefined) continue
        const { held, who } = taken
        const wei = now.kind === 'settle' ? BigInt(now.wei) : 0n
        const bps = now.kind === 'settle' ? now.bps : 0
        const { chargedWei } = await ledger.settle(held, chargeFor(ids[who] ?? '', wei, { feeBps: bps }))
        expect(chargedWei).toBe(wei < held.amountWei ? wei : held.amountWei)
        const own = model[who]
        if (own === undefined) continue
        own.reserved -= held.amountWei
        own.balance -= chargedWei
      }
      expect(await Promise.all(ids.map(amounts))).toEqual(model)
      await expectBooksBalance(database.db)
    }),
    { numRuns: 25 },
  )
})

test('64 clients on one customer, two gateways: never overdrawn, nothing lost', async () => {
  const id = await customer(2_000n)
  const other = openDatabase({ url: database.url, connectionsMax: 4 })
  const ledgers = [ledger, new Ledger({ macs: testMacs, ...other, log })]
  let charged = 0n
  let refusals = 0
  const client = async (n: number) => {
    const own = ledgers[n % 2] ?? ledger
    for (let i = 0; i < 12; i++) {
      const amountWei = BigInt(1 + ((n * 7 + i * 13) % 40))
      try {
        const held = await own.reserve({ id: newId('req'), customerId: id, amountWei })
        if ((n + i) % 4 === 0) own.release(held)
        else {
          const { chargedWei } = await own.settle(held, chargeFor(id, amountWei / 2n))
          charged += chargedWei
        }
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== 'insufficient_funds') throw error
        refusals++
      }
    }
  }
  await Promise.all(Array.from({ length: 64 }, (_, n) => client(n)))
  for (const own of ledgers) await own.stop()
  expect(await amounts(id)).toEqual({ balance: 2_000n - charged, reserved: 0n })
  // All of it was spent, so that it was the balance and not the load that ended it.
  expect(refusals).toBeGreaterThan(0)
  expect(charged).toBeGreaterThan(1_000n)
  await expectBooksBalance(database.db)
  const { groups, requests } = ledgers[1]?.state() ?? { groups: 0, requests: 0 }
  expect(groups).toBeLessThan(requests)
  await other.close()
})

describe('§13: commits whose answer is lost', () => {
  const cutOff = async () => {
    const way = await severable(database.url)
    const cut = openDatabase({ url: way.url, connectionsMax: 1 })
    const own = new Ledger({ macs: testMacs, ...cut, log })
    // A connection prepares each statement once, and waits for an answer to that.
    const first = await fundedCustomer(database, 1n)
    await own.settle(await own.reserve({ id: newId('req'), customerId: first, amountWei: 1n }), chargeFor(first, 1n))
    const stop = async () => {
      await own.stop()
      await cut.close()
      await way.close()
    }
    return { way, own, stop }
  }

  test('a reserve that was committed unheard is released, and its caller hears 503', async () => {
    const id = await customer(100n)
    const { way, own, stop } = await cutOff()
    way.muffle()
    const requestId = newId('req')
    const reserving = codeOf(Promise.resolve(own.reserve({ id: requestId, customerId: id, amountWei: 60n })))
    await waitUntil('it is committed', async () => (await amounts(id)).reserved === 60n)
    await way.sever()
    expect(await reserving).toBe('service_unavailable')
    await way.restore()
    await waitUntil('it is released', async () => (await amounts(id)).reserved === 0n)
    expect(await amounts(id)).toEqual({ balance: 100n, reserved: 0n })
    expect((await entries(id)).slice(1).map(({ kind }) => kind)).toEqual(['reserve', 'release'])
    await stop()
  })

  test('a charge that was committed unheard is found, and made once', async () => {
    const id = await customer(100n)
    const { way, own, stop } = await cutOff()
    const held = await own.reserve({ id: newId('req'), customerId: id, amountWei: 60n })
    way.muffle()
    const settling = own.settle(held, chargeFor(id, 40n))
    await waitUntil('it is committed', async () => (await amounts(id)).balance === 60n)
    await way.sever()
    await way.restore()
    expect(await settling).toEqual({ outcome: 'settled', chargedWei: 40n })
    expect(await amounts(id)).toEqual({ balance: 60n, reserved: 0n })
    await stop()
  })
})

describe('§13: one that the database will never take', () => {
  test('a reserve fails alone, and those beside it are made', async () => {
    const id = await customer(100n)
    const amountsWei = [10n, 0n, 20n, 30n]
    const tried = await Promise.allSettled(amountsWei.map((wei) => reserve(id, wei)))
    expect(tried.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
    expect(await amounts(id)).toEqual({ balance: 100n, reserved: 60n })
    for (const one of tried) if (one.status === 'fulfilled') ledger.release(one.value)
    await waitUntil('released', async () => (await amounts(id)).reserved === 0n)
  })

  test('a charge fails alone, and those beside it are made', async () => {
    const id = await customer(100n)
    const held = await Promise.all([10n, 20n, 30n].map((wei) => reserve(id, wei)))
    const charges = held.map(({ amountWei }) => chargeFor(id, amountWei))
    const broken = {
      ...charges[1],
      receipt: { ...charges[1]?.receipt, text: '{"prompt_tokens":99999999999}' },
    } as Charge
    const tried = await Promise.allSettled(
      held.map((one, at) => ledger.settle(one, at === 1 ? broken : (charges[at] as Charge))),
    )
    expect(tried.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(await amounts(id)).toEqual({ balance: 60n, reserved: 20n })
    for (const one of held) ledger.release(one)
    await waitUntil('released', async () => (await amounts(id)).reserved === 0n)
  })
})

test('connections cut under load: what was answered is written once, what was not is released', async () => {
  const id = await customer(1_000_000n)
  const way = await severable(database.url)
  const cut = openDatabase({ url: way.url, connectionsMax: 3 })
  const faults: string[] = []
  const own = new Ledger({ macs: testMacs, ...cut, log: { ...log, warn: (event) => faults.push(event) } })
  let charged = 0n
  let running = true
  const client = async () => {
    while (running) {
      try {
        const held = await own.reserve({ id: newId('req'), customerId: id, amountWei: 10n })
        const { chargedWei } = await own.settle(held, chargeFor(id, 3n))
        charged += chargedWei
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== 'service_unavailable') throw error
        await turn()
      }
    }
  }
  const more = (charges: bigint) => {
    const goal = charged + 3n * charges
    return waitUntil('more charges', () => charged >= goal)
  }
  const clients = Array.from({ length: 64 }, client)
  for (let round = 0; round < 3; round++) {
    await more(100n)
    const before = faults.length
    await way.sever()
    await waitUntil('a fault', () => faults.length > before)
    await way.restore()
  }
  await more(100n)
  running = false
  await Promise.all(clients)
  await own.stop()
  expect(faults.length).toBeGreaterThan(0)
  const { balance } = await amounts(id)
  expect(balance).toBe(1_000_000n - charged)
  await expectBooksBalance(database.db)
  await cut.close()
  await way.close()
  // A reserve whose answer was lost may have been committed after its release found nothing: the sweeper's to end.
  await database.sql`update reservations set expires_at = now() - interval '1 s' where customer_id = ${id} and status = 'open'`
  await ledger.sweep()
  expect(await amounts(id)).toMatchObject({ reserved: 0n })
})
