import { expect, test } from 'bun:test'
import { treasuryTotals } from '../../../src/db/queries/money/payouts.ts'
import { charges, commit, entriesOf, expectSound, groupsOf, reserved } from '../../support/money/groups.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const credit = 1_000_000n
const database = await fixture(testDatabase({ connectionsMax: 6 }), expectSound)

test('§13: charges of a customer that are committed together are one row, with each entry, share and fee by its own id', async () => {
  const id = await fundedCustomer(database, credit)
  const work = await reserved(database, [
    ...charges(id, 4),
    // All of its reserve, all for the operator, all for the node.
    { customerId: id, reservedWei: 50n, chargedWei: 50n, feeBps: 1_000 },
    { customerId: id, reservedWei: 50n, chargedWei: 20n, feeBps: 10_000 },
    { customerId: id, reservedWei: 50n, chargedWei: 20n, feeBps: 0 },
  ])
  expect(new Set(await commit(database, work))).toEqual(new Set(['settled']))
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 7, moved: false }])
  const rows = await database.sql`select 1 from ledger_rows where customer_id = ${id} and kind in ('debit', 'release')`
  expect(rows).toHaveLength(0)
  let [balance, left] = [credit, 550n]
  const expected = work.rows.flatMap((row, at) => {
    const whole = at < 4 ? 100n : 50n
    balance -= row.chargedWei
    left -= whole
    const same = { reservationId: row.id, receiptHash: row.receiptHash, balanceAfterWei: balance }
    const debit = { ...same, entryId: row.debit, kind: 'debit', amountWei: row.chargedWei }
    const rest = whole - row.chargedWei
    if (rest === 0n) return [{ ...debit, reservedAfterWei: left }]
    const release = { ...same, entryId: row.release, kind: 'release', amountWei: rest, reservedAfterWei: left }
    return [{ ...debit, reservedAfterWei: left + rest }, release]
  })
  const written = (await entriesOf(database, id)).filter(({ kind }) => kind === 'debit' || kind === 'release')
  expect(written as unknown).toMatchObject(expected)
  expect(written).toHaveLength(expected.length)
  const shares =
    await database.sql`select entry_id, node_id, receipt_hash, amount_wei, gross_wei, held, settlement_status
    from payouts where receipt_hash in ${database.sql(work.rows.map(({ receiptHash }) => receiptHash ?? ''))}`
  expect(new Set(shares.map((share) => JSON.stringify(share)))).toEqual(
    new Set(
      work.rows
        .filter(({ shareWei }) => shareWei > 0n)
        .map((row) =>
          JSON.stringify({
            entry_id: row.payout,
            node_id: row.node,
            receipt_hash: row.receiptHash,
            amount_wei: row.shareWei.toString(),
            gross_wei: row.chargedWei.toString(),
            held: false,
            settlement_status: 'pending',
          }),
        ),
    ),
  )
  const fees = await database.sql`select entry_id, amount_wei from protocol_fees
    where receipt_hash in ${database.sql(work.rows.map(({ receiptHash }) => receiptHash ?? ''))}`
  expect(new Map(fees.map(({ entry_id: fee, amount_wei: wei }) => [fee, BigInt(wei)]))).toEqual(
    new Map(work.rows.filter(({ feeWei }) => feeWei > 0n).map(({ fee, feeWei }) => [fee, feeWei])),
  )
})

test('§13: what is held or given back is no part of a group, and neither is a customer with fewer charges', async () => {
  const [many, few] = [await fundedCustomer(database, credit), await fundedCustomer(database, credit)]
  const work = await reserved(database, [
    ...charges(many, 4),
    ...charges(many, 1, { held: true }),
    ...charges(many, 1, { chargedWei: 0n }),
    ...charges(few, 3),
  ])
  await commit(database, work, 4)
  expect(await groupsOf(database, many)).toMatchObject([{ rows: 4 }])
  expect(await groupsOf(database, few)).toHaveLength(0)
  expect((await entriesOf(database, few)).filter(({ kind }) => kind === 'debit')).toHaveLength(3)
  const [held] = await database.sql`select p.held from payout_rows p join receipt_rows r using (receipt_hash)
    where r.customer_id = ${many} and r.status = 'held'`
  expect(held).toEqual({ held: true })
})

test('§13: a group that is sent again is one group, in the same order, in another and in parts', async () => {
  const id = await fundedCustomer(database, credit)
  const work = await reserved(database, charges(id, 9))
  const answers = await Promise.all([commit(database, work), commit(database, work)])
  for (const again of [
    work,
    { ...work, rows: work.rows.toReversed() },
    { rows: work.rows.slice(2, 5), receipts: work.receipts.slice(2, 5) },
  ])
    answers.push(await commit(database, again))
  expect(new Set(answers.flat())).toEqual(new Set(['settled']))
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 9 }])
  // With some that are new, these alone are charged.
  const more = await reserved(database, charges(id, 3))
  await commit(database, { rows: [...work.rows, ...more.rows], receipts: [...work.receipts, ...more.receipts] })
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 9 }, { rows: 3 }])
  await expectSound(database)
})

test('§13: of a group whose reservations have partly ended the others alone are charged', async () => {
  const id = await fundedCustomer(database, credit)
  const work = await reserved(database, charges(id, 6))
  const ended = work.rows.slice(1, 3)
  await commit(database, {
    rows: ended.map((row) => ({ ...row, chargedWei: 0n, shareWei: 0n, feeWei: 0n })),
    receipts: [],
  })
  const unknown = work.rows.map((row, at) => (at === 5 ? { ...row, id: 'req_never' } : row))
  expect(await commit(database, { ...work, rows: unknown })).toEqual([
    'settled',
    'closed',
    'closed',
    'settled',
    'settled',
    'unknown',
  ])
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 3 }])
  const billed = await database.sql`select 1 from receipts where customer_id = ${id} and billed`
  expect(billed).toHaveLength(3)
  const [open] = work.rows.slice(5)
  if (open !== undefined)
    await commit(database, { rows: [{ ...open, chargedWei: 0n, shareWei: 0n, feeWei: 0n }], receipts: [] })
  // Its receipt is there, and nobody pays for it.
  await expectSound(database)
})

test('§13: shares become rows once, all of a group, and every sum stays', async () => {
  const id = await fundedCustomer(database, credit)
  await commit(database, await reserved(database, charges(id, 8)))
  const [group] = await groupsOf(database, id)
  const sums = async () => [
    await treasuryTotals(database.db, new Date(0)),
    (await database.sql`select 1 from payouts`).length,
  ]
  const before = await sums()
  const move = () => database.sql`select charge_shares_move(array[${group?.seq ?? '0'}::bigint])`
  await Promise.all([move(), move(), move()])
  expect(await sums()).toEqual(before)
  const rows = await database.sql`select p.entry_id from payout_rows p join receipt_rows r using (receipt_hash)
    where r.customer_id = ${id}`
  expect(rows).toHaveLength(8)
  await expectSound(database)
})

test('§13: a group is never changed and never removed, and no sum of it can be wrong', async () => {
  const id = await fundedCustomer(database, credit)
  await commit(database, await reserved(database, charges(id, 4)))
  const codeOf = (statement: string) =>
    database.sql.unsafe(statement).then(
      () => null,
      ({ code }: { code: string }) => code,
    )
  const mine = `where customer_id = '${id}'`
  for (const change of [
    'charged_total = charged_total + 1',
    "customer_id = 'x'",
    'created_at = now()',
    "hashes = '\\x00'",
    'balance_after_wei = reserved_after_wei',
  ])
    expect([change, await codeOf(`update charge_groups set ${change} ${mine}`)]).toEqual([change, '23001'])
  expect(await codeOf(`delete from charge_groups ${mine}`)).toBe('23001')
  expect(await codeOf('truncate charge_groups')).toBe('23001')
  await database.sql`update charge_groups set shares_moved = true where false`
  const columns = (
    await database.sql`select column_name as name from information_schema.columns where table_name = 'charge_groups' order by ordinal_position`
  ).map(({ name }) => String(name))
  const copyWith = (changes: Readonly<Record<string, string>>) =>
    codeOf(`insert into charge_groups (${columns.join(', ')})
      select ${columns.map((column) => changes[column] ?? column).join(', ')} from charge_groups ${mine}`)
  // A second one of the same id, whatever its place is.
  expect(await copyWith({ last_seq: 'last_seq + 10', first_seq: 'first_seq + 10' })).toBe('23514')
  const away = { last_seq: "nextval('ledger_entries_seq_seq')" }
  for (const [column, value] of Object.entries({
    charged_total: 'charged_total + 1',
    shares_total: 'shares_total - 1',
    charged_wei: 'charged_wei[1:3]',
    share_wei: 'fee_wei',
    hashes: 'substring(hashes for 64)',
    rows: 'rows - 1',
    reserved_after_wei: "array_replace(reserved_after_wei, 0, '-1')",
    release_ids: 'array_fill(null::text, array[rows])',
    balance_after_wei: 'reserved_after_wei',
    last_seq: 'first_seq + 1000000',
  }))
    expect([column, await copyWith({ ...away, [column]: value })]).toEqual([column, '23514'])
})
