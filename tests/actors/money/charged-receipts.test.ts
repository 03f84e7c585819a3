import { expect, test } from 'bun:test'
import { buildBatch } from '../../../src/actors/money/batch-building.ts'
import { chargedFacts } from '../../../src/db/queries/money/charged-facts.ts'
import { ledgerCosts } from '../../../src/db/queries/money/costs.ts'
import { invoicePage } from '../../../src/db/queries/money/ledger-pages.ts'
import { movePayouts, payablePayouts } from '../../../src/db/queries/money/payout-batches.ts'
import { pendingReceiptHashes, publicReceipts, receiptCounts } from '../../../src/db/queries/money/public-settlement.ts'
import { decideReceipt } from '../../../src/db/queries/money/receipt-decisions.ts'
import { getReceipt } from '../../../src/db/queries/money/receipts.ts'
import { newId } from '../../../src/ids.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { everything, expectSound, groupsOf } from '../../support/money/groups.ts'
import { LeasedCalls, leasedWork, leaseOf } from '../../support/money/leased.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const credit = 100_000n
const hour = 3_600_000
const database = await fixture(testDatabase({ connectionsMax: 4 }), expectSound)
const calls = new LeasedCalls(database)

const groupRows = (customerId: string) => database.sql<{ rows: number; billed: boolean; mac: string | null }[]>`
  select rows, billed, mac from receipt_groups where shared[1] = ${customerId} order by last_seq`
const rowHashes = async (customerId: string) =>
  (await database.sql`select receipt_hash as hash from receipt_rows where customer_id = ${customerId}`).map(
    ({ hash }) => String(hash),
  )

/** Charges of one commit under a lease, with their receipts in a group. */
async function charged(count: number, customerId?: string) {
  const id = customerId ?? (await fundedCustomer(database, credit))
  const lease = await leaseOf(database, id, 100n * BigInt(count))
  const all = Array.from({ length: count }, (_, at) => leasedWork(id, lease, { nodeId: `node_${at % 2}` }))
  expect(new Set(await calls.send(all))).toEqual(new Set(['settled']))
  return { id, all, hashes: all.map(({ receipt }) => receipt.hash) }
}

test('§14: the receipts of a commit are one marked group, each with what it says as a row', async () => {
  const [ada, bob] = [await fundedCustomer(database, credit), await fundedCustomer(database, credit)]
  const signature = 'c2lnbmVk'
  const pair = (rows: boolean) =>
    Promise.all(
      [ada, bob].map(async (id) => {
        const lease = await leaseOf(database, id, 200n)
        return leasedWork(id, lease, { nodeId: 'node_0', ...(rows ? {} : { receipt: { signature } }) })
      }),
    )
  const [grouped, single] = [await pair(false), await pair(true)]
  expect(await calls.send(grouped)).toEqual(['settled', 'settled'])
  expect(await calls.send(single, { grouped: false })).toEqual(['settled', 'settled'])
  const [group] = await database.sql`select rows, billed, mac is not null as marked from receipt_groups
    where ${ada} = any (customer_id)`
  expect(group).toEqual({ rows: 2, billed: true, marked: true })
  for (const [at, id] of [ada, bob].entries()) {
    const [hash, other] = [grouped[at]?.receipt.hash ?? '', single[at]?.receipt.hash ?? '']
    const [mine, theirs] = [await getReceipt(database.db, hash), await getReceipt(database.db, other)]
    expect(mine).toMatchObject({ receiptHash: hash, customerId: id, status: 'accepted', billed: true, batchId: null })
    expect(mine?.signatureEd25519).toBe(signature)
    const { receiptHash: _, requestId: __, seq: ___, signatureEd25519: ____, ...facts } = theirs ?? {}
    const { createdAt: _at, groupFirstSeq: _first, groupLastSeq: _last, ...same } = facts as NonNullable<typeof mine>
    expect(mine).toMatchObject(same)
    expect(await rowHashes(id)).toEqual([other])
  }
})

test('§14: a receipt with a nonce, or with one of its node beside it, is a row, and its charge stands in the group', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = await leaseOf(database, id, 1_000n)
  const plain = [leasedWork(id, lease), leasedWork(id, lease)]
  const beside = leasedWork(id, lease, { receipt: { nodeReceipt: '{}' } })
  const facts = receiptFacts({ nodeId: 'node_1', runtimeId: 'rt_1', clientNonce: 'n'.repeat(32) })
  const text = receiptText(facts)
  const bound = leasedWork(id, lease, { receipt: { text, hash: textHash(text), facts } })
  const [first, second] = plain
  if (first === undefined || second === undefined) throw new Error('no work')
  expect(new Set(await calls.send([first, bound, second, beside]))).toEqual(new Set(['settled']))
  expect(await groupRows(id)).toMatchObject([{ rows: 2, billed: true }])
  expect((await rowHashes(id)).toSorted()).toEqual([bound.receipt.hash, beside.receipt.hash].toSorted())
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 4 }])
})

test('§14: what a receipt in a group has become is what its payout has: accepted, batched, finalized', async () => {
  const { id, hashes } = await charged(3)
  const statuses = async () =>
    (
      await database.sql`select status, batch_id is not null as batched from receipts
        where customer_id = ${id} order by receipt_hash = ${hashes[0] ?? ''} desc`
    ).map(({ status, batched }) => [status, batched])
  const pending = async () => {
    const all = new Set(await database.db.transaction((tx) => pendingReceiptHashes(tx)))
    return hashes.filter((hash) => all.has(hash))
  }
  expect(await statuses()).toEqual([1, 2, 3].map(() => ['accepted', false]))
  expect(await pending()).toEqual(hashes)
  const payouts = (await payablePayouts(database.db, 1_000)).filter(({ receiptHash }) => receiptHash === hashes[0])
  const { batch } = await database.db.transaction((tx) =>
    buildBatch(
      tx,
      payouts.map((payout) => ({ ...payout, payee: `0x${'a1'.repeat(20)}` })),
      false,
    ),
  )
  const batchId = batch?.batchId ?? ''
  // All shares of the group are rows now, and one is in the batch.
  expect(await statuses()).toEqual([
    ['batched', true],
    ['accepted', false],
    ['accepted', false],
  ])
  expect(await pending()).toEqual(hashes.slice(1))
  await database.db.transaction((tx) => movePayouts(tx, batchId, 'submitted'))
  expect((await statuses())[0]).toEqual(['batched', true])
  await database.db.transaction((tx) => movePayouts(tx, batchId, 'finalized'))
  expect(await statuses()).toEqual([
    ['finalized', true],
    ['accepted', false],
    ['accepted', false],
  ])
})

test('§14: nobody decides on a receipt in a group: it was never held', async () => {
  const { hashes } = await charged(2)
  for (const decision of ['accepted', 'rejected'] as const)
    expect(await database.db.transaction((tx) => decideReceipt(tx, hashes[1] ?? '', decision, newId('led')))).toBe(
      'not_held',
    )
  expect(
    await database.db.transaction((tx) => decideReceipt(tx, `0x${'0'.repeat(64)}`, 'accepted', newId('led'))),
  ).toBe('unknown')
})

test('§14: invoices, costs and reports of nodes say of grouped receipts what they say of rows', async () => {
  const { id, all } = await charged(5)
  const lease = await leaseOf(database, id, 100n)
  const row = leasedWork(id, lease)
  await calls.send([row], { grouped: false })
  const lines = await invoicePage(database.db, everything(id), null, 10)
  expect(lines.map(({ receiptHash }) => receiptHash)).toEqual(
    [...all, row].map(({ receipt }) => receipt.hash).toReversed(),
  )
  for (const line of lines)
    expect(line).toMatchObject({ kind: 'hosted_chat', modelId: 'm', promptTokens: 9, completionTokens: 7 })
  const facts = await chargedFacts(database.db, lines)
  expect(facts.size).toBe(6)
  expect(facts.get(all[2]?.receipt.hash ?? '')?.requestId).toBe(
    (await getReceipt(database.db, all[2]?.receipt.hash ?? ''))?.requestId ?? '',
  )
  const range = { from: new Date(Date.now() - hour), to: new Date(Date.now() + hour) }
  const costs = await ledgerCosts(database.db, 'customer', range, 1_000)
  expect(costs.find(({ key }) => key === id)).toMatchObject({
    count: 6,
    amountWei: '360',
    promptTokens: '54',
    completionTokens: '42',
  })
  expect((await ledgerCosts(database.db, 'model', range, 1_000)).map(({ key }) => key)).toEqual(['m'])
})

test('§32: a debit whose receipt is of another moment has its model all the same, and costs add up by model as by customer', async () => {
  const { id } = await charged(3)
  const late = leasedWork(id, await leaseOf(database, id, 100n))
  await calls.send([late], { grouped: false })
  await database.sql`update receipt_rows set created_at = created_at - interval '1 minute' where receipt_hash = ${late.receipt.hash}`
  const range = { from: new Date(Date.now() - hour), to: new Date(Date.now() + hour) }
  const byModel = await ledgerCosts(database.db, 'model', range, 1_000)
  const byCustomer = await ledgerCosts(database.db, 'customer', range, 1_000)
  expect(byModel.map(({ key }) => key)).toEqual(['m'])
  for (const of of ['count', 'amountWei', 'refundedWei', 'promptTokens', 'completionTokens'] as const) {
    const sum = (costs: typeof byModel) => costs.reduce((total, cost) => total + BigInt(cost[of]), 0n)
    expect([of, sum(byModel)]).toEqual([of, sum(byCustomer)])
  }
})

test('§14: the public list has the newest receipts, of groups and rows in turns, and counts all', async () => {
  const made: string[] = []
  const before = await receiptCounts(database.db)
  for (let round = 0; round < 3; round++) {
    const { id, hashes } = await charged(4)
    made.push(...hashes)
    const row = leasedWork(id, await leaseOf(database, id, 100n))
    await calls.send([row], { grouped: false })
    made.push(row.receipt.hash)
  }
  for (const limit of [1, 4, 5, 11, 15]) {
    const shown = (await publicReceipts(database.db, limit)).map(({ receiptHash }) => receiptHash)
    const [rows, wanted] = [
      new Set(shown),
      await database.sql<{ hash: string }[]>`
      select receipt_hash as hash from receipts where billed order by created_at desc, receipt_hash desc limit ${limit}`,
    ]
    expect([...rows]).toEqual(wanted.map(({ hash }) => hash))
    expect(rows.size).toBe(limit)
  }
  expect((await publicReceipts(database.db, 15)).map(({ receiptHash }) => receiptHash).toSorted()).toEqual(
    made.toSorted(),
  )
  const { accepted, latestAt } = await receiptCounts(database.db)
  expect(accepted - before.accepted).toBe(15)
  expect(latestAt?.getTime()).toBeGreaterThanOrEqual(before.latestAt?.getTime() ?? 0)
})
