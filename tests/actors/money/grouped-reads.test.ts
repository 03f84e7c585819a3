import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ledgerPart, partForms } from '../../../src/db/queries/log/sources.ts'
import type { LedgerEntry } from '../../../src/db/queries/money/ledger.ts'
import { invoicePage, ledgerPage, ledgerTotals } from '../../../src/db/queries/money/ledger-pages.ts'
import {
  charges,
  commit,
  entriesOf,
  everything,
  expectSound,
  groupsOf,
  neverGrouped,
  reserved,
} from '../../support/money/groups.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { fixture } from '../../support/run/fixture.ts'
import { type TestDatabase, testDatabase } from '../../support/run/postgres.ts'

const credit = 1_000_000n
const database = await fixture(testDatabase({ connectionsMax: 6 }), expectSound)

/** What an entry says, without its own id and number. */
const told = ({ kind, amountWei, balanceAfterWei, reservedAfterWei, receiptHash, reservationId }: LedgerEntry) => [
  kind,
  amountWei,
  balanceAfterWei,
  reservedAfterWei,
  receiptHash !== null,
  reservationId !== null,
]

const work = fc.record({
  who: fc.nat(2),
  reservedWei: fc.bigInt({ min: 1n, max: 60n }),
  part: fc.integer({ min: 0, max: 100 }),
  feeBps: fc.constantFrom(0, 1, 500, 1_000, 9_999, 10_000),
  held: fc.boolean(),
})

test('§13: whatever is charged, groups and rows tell the same: entries, balances after them, shares, fees and totals', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(work, { minLength: 1, maxLength: 12 }), { maxLength: 4 }), async (commits) => {
      const grouped = await Promise.all([0, 1, 2].map(() => fundedCustomer(database, credit)))
      const single = await Promise.all([0, 1, 2].map(() => fundedCustomer(database, credit)))
      for (const one of commits) {
        for (const [ids, groupFrom] of [
          [grouped, 2],
          [single, neverGrouped],
        ] as const) {
          const held = await reserved(
            database,
            one.map(({ who, reservedWei, part, ...rest }) => ({
              ...rest,
              customerId: ids[who] ?? '',
              reservedWei,
              chargedWei: (reservedWei * BigInt(part)) / 100n,
            })),
          )
          expect(new Set(await commit(database, held, groupFrom))).toEqual(new Set(['settled']))
        }
      }
      for (const [at, id] of grouped.entries()) {
        const other = single[at] ?? ''
        const [mine, theirs] = [await entriesOf(database, id), await entriesOf(database, other)]
        const sums = (entries: readonly LedgerEntry[]) => entries.map(told).map(String).sort()
        // Within one commit what is grouped comes behind the rest, and all the same the last balance is the same.
        expect([mine.length, mine.at(-1)?.balanceAfterWei, mine.at(-1)?.reservedAfterWei]).toEqual([
          theirs.length,
          theirs.at(-1)?.balanceAfterWei,
          theirs.at(-1)?.reservedAfterWei,
        ])
        const plain = (entries: readonly LedgerEntry[]) =>
          sums(entries.map((entry) => ({ ...entry, balanceAfterWei: 0n, reservedAfterWei: 0n })))
        expect(plain(mine)).toEqual(plain(theirs))
        expect(await ledgerTotals(database.db, everything(id))).toEqual(
          await ledgerTotals(database.db, everything(other)),
        )
        const shares = (
          of: string,
        ) => database.sql`select p.node_id, p.kind, p.amount_wei, p.gross_wei, p.held, p.settlement_status,
            coalesce(f.amount_wei, 0) as fee, f.status from receipt_rows r left join payouts p using (receipt_hash)
            left join protocol_fees f using (receipt_hash) where r.customer_id = ${of} order by 1, 2, 3, 4, 5, 6, 7`
        expect([...(await shares(id))]).toEqual([...(await shares(other))])
      }
      await expectSound(database)
    }),
    { numRuns: 15 },
  )
})

test('§13: every page from every cursor has the same entries, wherever groups and rows lie', async () => {
  const id = await fundedCustomer(database, credit)
  const other = await fundedCustomer(database, credit)
  for (const [at, count] of [3, 1, 7, 2, 12, 1, 1, 5].entries()) {
    await commit(
      database,
      await reserved(database, [...charges(id, count), ...charges(other, 2)]),
      at % 3 === 0 ? neverGrouped : 2,
    )
  }
  const all = (await entriesOf(database, id)).toReversed()
  expect(all.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq).toSorted((a, b) => (a < b ? 1 : -1)))
  const debits = all.filter(({ kind }) => kind === 'debit')
  for (const limit of [1, 5, 13]) {
    const paged: LedgerEntry[] = []
    for (let after: bigint | null = null; ; ) {
      const page: readonly LedgerEntry[] = await ledgerPage(database.db, everything(id), after, limit)
      paged.push(...page)
      if (page.length < limit) break
      after = page.at(-1)?.seq ?? null
    }
    expect(paged).toEqual(all)
    for (const [at, { seq }] of all.entries()) {
      if (at % 4 !== limit % 4) continue
      const page = await ledgerPage(database.db, everything(id), seq, limit)
      expect(page.map(({ entryId }) => entryId)).toEqual(
        all.slice(at + 1, at + 1 + limit).map(({ entryId }) => entryId),
      )
      const lines = await invoicePage(database.db, everything(id), seq, limit)
      const behind = debits.filter((debit) => debit.seq < seq).slice(0, limit)
      expect(lines.map(({ entryId, modelId }) => [entryId, modelId])).toEqual(
        behind.map(({ entryId }) => [entryId, 'm']),
      )
    }
  }
  const middle = all[20]?.createdAt ?? new Date()
  const parts = [
    { customerId: id, from: new Date(0), to: middle },
    { customerId: id, from: middle, to: null },
  ]
  const [before, since] = await Promise.all(parts.map((range) => ledgerPage(database.db, range, null, 1_000)))
  expect([...(since ?? []), ...(before ?? [])]).toEqual(all)
})

test('§31: the log takes the same parts of the ledger, wherever it cuts, before and after shares became rows', async () => {
  const id = await fundedCustomer(database, credit)
  for (const count of [6, 1, 3]) await commit(database, await reserved(database, charges(id, count)), 2)
  const [ends] = await database.sql<{ from: string; to: string }[]>`select min(seq)::text as from, max(seq)::text as to
    from ledger_entries where customer_id = ${id}`
  const [from, to] = [BigInt(ends?.from ?? 0) - 1n, BigInt(ends?.to ?? 0)]
  const parts = async () => {
    const found = []
    for (const form of partForms) {
      for (const atOnce of [1, 4, 1_000]) {
        for (let after = from; ; ) {
          const part = await ledgerPart(database.db, after, to, atOnce, form)
          if (part === null) break
          found.push(part)
          after = part.toSeq
        }
      }
    }
    return found
  }
  const before = await parts()
  expect(before.length).toBeGreaterThan(60)
  const groups = await groupsOf(database, id)
  await database.sql`select charge_shares_move(${`{${groups.map(({ seq }) => seq).join()}}`}::text::bigint[])`
  expect((await groupsOf(database, id)).every(({ moved }) => moved)).toBe(true)
  expect(await parts()).toEqual(before)
  await expectSound(database)
})

test('§31: parts with a line for each entry are, over a group, letter for letter those over the same charges as rows', async () => {
  const id = await fundedCustomer(database, credit)
  const odd = [0, 10_000, 1_000].flatMap((feeBps) => charges(id, 2, { feeBps }))
  await commit(database, await reserved(database, [...odd, ...charges(id, 1, { chargedWei: 100n })]))
  const [group] = await groupsOf(database, id)
  const to = BigInt(group?.seq ?? 0)
  const parts = (db: TestDatabase['db']) =>
    Promise.all(([1, 2] as const).map((form) => ledgerPart(db, to - 20n, to, 1_000, form)))
  const before = await parts(database.db)
  const undone = new Error('undone')
  const asRows = database.db.transaction(async (tx) => {
    const where = `group_last_seq = ${to}`
    for (const statement of [
      `create temp table entries on commit drop as select * from ledger_entries where ${where} and group_first_seq <> group_last_seq`,
      `create temp table shares on commit drop as select * from payouts where ${where}`,
      "create temp table fees on commit drop as select f.* from protocol_fees f join entries e using (receipt_hash) where e.kind = 'debit'",
      "set local session_replication_role = 'replica'",
      `delete from charge_groups where last_seq = ${to}`,
      `insert into ledger_rows (entry_id, seq, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id,
          receipt_hash, created_at) overriding system value
        select entry_id, seq, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id, receipt_hash, created_at
        from entries`,
      `insert into payout_rows (entry_id, node_id, receipt_hash, kind, amount_wei, gross_wei, earned_payee, payee, created_at)
        select entry_id, node_id, receipt_hash, kind, amount_wei, gross_wei, earned_payee, payee, created_at from shares`,
      `insert into fee_rows (entry_id, receipt_hash, amount_wei, created_at) select entry_id, receipt_hash, amount_wei, created_at from fees`,
    ])
      await tx.execute(statement)
    expect(await groupsOfAll(tx)).toEqual([])
    expect(await parts(tx)).toEqual(before)
    expect(before.map((part) => part?.toSeq)).toEqual([to, to])
    throw undone
  })
  expect(
    await asRows.then(
      () => null,
      (error: unknown) => error,
    ),
  ).toBe(undone)

  async function groupsOfAll(tx: TestDatabase['db']) {
    return [...(await tx.execute(`select 1 from charge_groups where last_seq = ${to}`))]
  }
})
