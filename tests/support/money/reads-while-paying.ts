import { expect } from 'bun:test'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { testDatabase } from '../run/postgres.ts'
import { turn } from '../run/turn.ts'
import { waitUntil } from '../run/wait-until.ts'
import { expectSound } from './groups.ts'
import { chargeFor, fundedCustomer } from './ledger.ts'
import { testMacs } from './receipt-macs.ts'

/** Amounts are this and a bit of their slot, so that a sum says which slots are in it. A balance is below 2^256. */
const quoteBase = 1n << 220n
const slotsMax = 200
const creditWei = 1n << 240n

/** One reservation; moments are numbered in their order. It is reserved for certain from `reservedAt` until `endingAt`. */
interface Held {
  readonly slot: number
  readonly askedAt: number
  reservedAt: number
  endingAt: number
  endedAt: number
}

export interface ReadsSeen {
  readonly reads: number
  readonly paid: number
  /** Reads that found some of the money leased before. */
  readonly recalls: number
  readonly groups: number
}

/** Before so many reads there are charges under a lease for certain. */
const leasedReads = 4
const never = Number.POSITIVE_INFINITY
let moments = 0
/** The number of this moment: larger than of all before. */
const moment = () => ++moments

/** Whether at some moment of the read just these slots were reserved. What is under way may be either. */
function wasAtOnce(slots: ReadonlySet<number>, held: readonly Held[], fromAt: number, toAt: number): boolean {
  let [earliest, latest] = [fromAt, toAt]
  const near = held.filter(({ askedAt, endedAt }) => endedAt >= fromAt && askedAt <= toAt)
  for (const slot of slots) {
    const spans = near.filter((one) => one.slot === slot)
    // A slot has one reservation after the other; of two in one read either may be it.
    if (spans.length === 0) return false
    earliest = Math.max(earliest, Math.min(...spans.map(({ askedAt }) => askedAt)))
    latest = Math.min(latest, Math.max(...spans.map(({ endedAt }) => endedAt)))
  }
  if (earliest > latest) return false
  const absent = near.filter(({ slot }) => !slots.has(slot))
  const free = (at: number) => !absent.some(({ reservedAt, endingAt }) => reservedAt < at && at < endingAt)
  return [earliest, latest, ...absent.flatMap(({ reservedAt, endingAt }) => [reservedAt, endingAt])].some(
    (at) => earliest <= at && at <= latest && free(at),
  )
}

/** So many requests at once of one customer on two gateways, while it reads its account so often on either. */
export async function readsWhilePaying({ clients, reads }: { clients: number; reads: number }): Promise<ReadsSeen> {
  const database = await testDatabase({ connectionsMax: 4 })
  const log = createLog('silent', () => {})
  const opened = [0, 1].map(() => openDatabase({ url: database.url, connectionsMax: 4 }))
  const ledgers = opened.map((own) => new Ledger({ macs: testMacs, ...own, log }))
  for (const ledger of ledgers) await ledger.start()
  const id = await fundedCustomer(database, creditWei)
  const held: Held[] = []
  let running = true
  let paid = 0
  const client = async (n: number) => {
    const slot = n % slotsMax
    const ledger = ledgers[n % 2] as Ledger
    while (running) {
      const one: Held = { slot, askedAt: moment(), reservedAt: never, endingAt: never, endedAt: never }
      held.push(one)
      const reservation = await ledger.reserve({
        id: newId('req'),
        customerId: id,
        amountWei: quoteBase + (1n << BigInt(slot)),
      })
      one.reservedAt = moment()
      for (let turns = (n * 7) % 40; turns > 0; turns--) await turn()
      one.endingAt = moment()
      await ledger.settle(reservation, chargeFor(id, 1n))
      one.endedAt = moment()
      paid++
    }
  }
  const load = Promise.all(Array.from({ length: Math.min(clients, slotsMax) }, (_, n) => client(n)))
  let recalls = 0
  const leasedCharges = async () => {
    const [row] = await database.sql<{ groups: number }[]>`
      select count(reserve_seq)::int as groups from charge_groups where customer_id = ${id}`
    return row?.groups ?? 0
  }
  for (let read = 0; read < reads; read++) {
    if (read < leasedReads) {
      const charged = await leasedCharges()
      await waitUntil('a charge under a lease', async () => (await leasedCharges()) > charged)
    }
    const [before] = await database.sql<{ leased: boolean }[]>`
      select leased_wei > 0 as leased from customers where customer_id = ${id}`
    if (before?.leased === true) recalls++
    const fromAt = moment()
    const row = await ledgers[read % 2]?.account(id)
    const toAt = moment()
    expect(row?.leasedWei).toBe(0n)
    const reservedWei = row?.reservedWei ?? -1n
    const slots = new Set<number>()
    for (let slot = 0; slot < slotsMax; slot++) if ((reservedWei >> BigInt(slot)) & 1n) slots.add(slot)
    expect(BigInt(slots.size) * quoteBase).toBe((reservedWei / quoteBase) * quoteBase)
    // What is asked and has not ended is waited for, so that its end is known.
    const open = held.filter(({ endedAt }) => endedAt === never)
    expect(wasAtOnce(slots, held, fromAt, toAt)).toBe(true)
    held.splice(0, held.length, ...open)
    // Else nothing is leased for 2 s.
    await database.sql`update customers set unleased_until = null`
    for (let turns = 0; turns < 40; turns++) await turn()
  }
  running = false
  await load
  for (const ledger of ledgers) await ledger.stop()
  await expectSound(database)
  const groups = await leasedCharges()
  for (const own of opened) await own.close()
  await database.drop()
  return { reads, paid, recalls, groups }
}
