import { expect, test } from 'bun:test'
import { sessionOf } from '../../src/db/client.ts'
import { copyRows } from '../../src/db/copy.ts'
import { groupLine } from '../../src/db/queries/money/receipt-groups.ts'
import { makeReceiptPlaces } from '../../src/db/queries/money/receipt-ranges.ts'
import {
  factsOfRow,
  getReceipt,
  type NewReceipt,
  type ReceiptRow,
  receiptLine,
} from '../../src/db/queries/money/receipts.ts'
import { type Receipt, receiptText, textHash } from '../../src/protocol/receipts/receipt.ts'
import { insertGroup } from '../support/money/insert-receipts.ts'
import { receiptFacts } from '../support/money/receipt-facts.ts'
import { marked } from '../support/money/receipt-macs.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())

type Written = NewReceipt & { readonly facts: Receipt }

function receipt(changes: Partial<Receipt> = {}): Written {
  const facts: Receipt = receiptFacts({
    runtimeKind: 'llama.cpp',
    modelId: 'llama-3.1-8b',
    completedAt: '2026-11-20T16:00:00.123Z',
    ...changes,
  })
  const text = receiptText(facts)
  return { facts, hash: textHash(text), text, customerId: 'local' }
}

const write = (receipts: readonly Written[]) => insertGroup(database, receipts)

/** The log has taken all that is there. */
const allTaken = () =>
  database.sql`insert into log_state (log_id, origin, size, root, receipts_to, ledger_to)
    values (1, 'a.example/log', 0, '', (select max(seq) from receipts), 0)
    on conflict (log_id) do update set receipts_to = (select max(seq) from receipts)`

test('§14: what differs in a group and what all share come back as they were, letter for letter', async () => {
  const odd = ['', 'NULL', '{"a":"b\\c"}', 'tab\tand\nline', 'ü😀', '\\N', "it's"]
  const receipts = [
    ...odd.map((jobId, at) =>
      receipt({ jobId, modelId: `m${jobId}`, nodeClass: odd[(at + 1) % odd.length] ?? '', promptTokens: at * 1_000 }),
    ),
    receipt({
      jobId: null,
      issuer: 'node',
      startedAt: '1970-01-01T00:00:00.000Z',
      completedAt: '2100-12-31T23:59:59.999Z',
    }),
    // Beside those of an agent of a version before.
    receipt({ issuedAt: '2026-11-20T16:00:00.123Z' }),
    receipt({ issuer: 'node', issuedAt: '2026-11-20T16:04:59.999Z' }),
  ]
  const signed = receipts.map((one, at) =>
    at % 2 === 0 ? one : { ...one, signature: `s${at}`, customerId: `c\t${at}` },
  )
  await write(signed)
  for (const one of signed) {
    const row = await getReceipt(database.db, one.hash)
    expect(row).toMatchObject({
      ...one.facts,
      startedAt: new Date(one.facts.startedAt),
      completedAt: new Date(one.facts.completedAt),
      issuedAt: one.facts.issuedAt == null ? null : new Date(one.facts.issuedAt),
    })
    expect(textHash(receiptText(factsOfRow(row as ReceiptRow)))).toBe(one.hash)
    expect(row).toMatchObject({
      receiptHash: one.hash,
      customerId: one.customerId,
      signatureEd25519: 'signature' in one ? one.signature : null,
      status: 'accepted',
      billed: false,
      clientNonce: null,
      nodeReceipt: null,
    })
  }
})

test('§36: what all of a group were issued after their end stands there once', async () => {
  const receipts = Array.from({ length: 5 }, (_, at) =>
    receipt({ completedAt: `2026-11-20T16:00:0${at}.000Z`, issuedAt: `2026-11-20T16:00:0${at}.000Z` }),
  )
  await write(receipts)
  const [row] = await database.sql`select shared[16] as shared, issued_after_ms as each from receipt_groups
    where first_hash = ${Buffer.from((receipts[0]?.hash ?? '').slice(2), 'hex')}`
  expect(row).toEqual({ shared: '0', each: null })
  for (const { hash, facts } of receipts) {
    expect((await getReceipt(database.db, hash))?.issuedAt).toEqual(new Date(facts.issuedAt ?? ''))
  }
})

test('§14: what is paid for, held, bound or has another one beside it is no part of a group', () => {
  const { facts, ...without } = receipt()
  expect(groupLine(without)).toBeNull()
  for (const more of [{ billed: true }, { status: 'held' }, { nodeReceipt: '{}' }] as const) {
    expect(groupLine({ ...receipt(), ...more })).toBeNull()
  }
  expect(groupLine(receipt({ clientNonce: 'n', requestCommitment: null, responseCommitment: null }))).toBeNull()
  expect(groupLine(receipt(facts))).not.toBeNull()
})

test('§14: a group that is there stays as it is; the numbers of its receipts are their order', async () => {
  const receipts = Array.from({ length: 250 }, (_, at) => receipt({ promptTokens: at }))
  await write(receipts)
  await write(receipts)
  const rows = await database.sql`select receipt_hash as hash from receipts
    where receipt_hash in ${database.sql(receipts.map(({ hash }) => hash))}
    order by seq`
  expect(rows.map(({ hash }) => hash)).toEqual(receipts.map(({ hash }) => hash))
})

test('§14: each receipt is found by its hash, in new groups and in runs of places of every level', async () => {
  const receipts: Written[] = []
  for (let round = 0; round < 40; round++) {
    const some = Array.from({ length: 1 + (round % 7) }, (_, at) =>
      receipt({ promptTokens: round, completionTokens: at }),
    )
    receipts.push(...some)
    await write(some)
    await allTaken()
    await makeReceiptPlaces(database.db, 3)
  }
  const runs = await database.sql`select level, from_seq, to_seq from receipt_place_runs order by to_seq`
  expect(new Set(runs.map(({ level }) => level)).size).toBeGreaterThan(1)
  // Each run begins where the one before it ends.
  expect(runs.slice(1).map(({ from_seq: from }) => from)).toEqual(runs.slice(0, -1).map(({ to_seq: to }) => to))
  for (const { hash } of receipts) expect((await getReceipt(database.db, hash))?.receiptHash).toBe(hash)
  for (const { hash } of receipts.slice(0, 20)) {
    expect(await getReceipt(database.db, `0x${hash.slice(4)}${hash.slice(2, 4)}`)).toBeNull()
    expect(await getReceipt(database.db, hash.toUpperCase())).toBeNull()
  }
})

test('§14: places are made of what the log has taken alone, so that no group comes in behind them', async () => {
  await allTaken()
  await makeReceiptPlaces(database.db, 1)
  const [before] = await database.sql`select max(to_seq) as to from receipt_place_runs`
  const one = receipt()
  await write([one])
  expect(await makeReceiptPlaces(database.db, 1)).toBe(0)
  expect((await database.sql`select max(to_seq) as to from receipt_place_runs`)[0]?.to).toBe(before?.to)
  expect((await getReceipt(database.db, one.hash))?.receiptHash).toBe(one.hash)
})

/** Without its last columns, which versions before do not know. */
const unmarkedLine = (receipt: NewReceipt) => receiptLine(marked(receipt)).replace(/(?:\t[^\t\n]*){3}\n$/, '\n')

test('§26: a gateway of the version before writes and changes its receipts by the old names', async () => {
  const [one, other] = [receipt(), receipt({ jobId: 'j' })]
  const columns = `receipt_hash, customer_id, signature_ed25519, status, billed, node_receipt, issuer, request_id, job_id, kind, node_id,
    node_class, runtime_id, runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at, client_nonce,
    request_commitment, response_commitment, upstream_model_commitment`
  await copyRows(database.sql, `receipts (${columns})`, [Buffer.from([one, other].map(unmarkedLine).join(''))])
  await database.sql`update receipts set status = 'held', batch_id = 'b' where receipt_hash = ${one.hash}`
  expect(
    await database.sql`select receipt_hash as hash, status, batch_id as batch from receipt_rows
    where receipt_hash in ${database.sql([one.hash, other.hash])} order by seq`,
  ).toEqual([
    { hash: one.hash, status: 'held', batch: 'b' },
    { hash: other.hash, status: 'accepted', batch: null },
  ] as never)
  const grouped = receipt()
  await write([grouped])
  expect(
    database.sql`update receipts set status = 'held' where receipt_hash = ${grouped.hash}`.execute(),
  ).rejects.toThrow('a receipt in a group does not change')
})

test('§26: the log of a gateway of the version before takes receipts of groups, and waits for who is writing one', async () => {
  const receipts = Array.from({ length: 12 }, () => receipt())
  const [fence] = await database.sql`select max(seq) as seq from receipts`
  await write(receipts)
  const taken =
    await database.sql`select receipt_hash as hash from receipts where seq > ${fence?.seq} order by receipts.seq limit 2000`
  expect(taken.map(({ hash }) => hash)).toEqual(receipts.map(({ hash }) => hash))
  const writer = sessionOf(database.sql)
  try {
    await writer`begin`
    await writer.unsafe(`select receipt_group_insert(1, '\\x${'ab'.repeat(32)}', '{c,NULL,gateway,req,NULL,hosted_chat,n,gpu,r,k,m,1,1,1,1}',
      array_fill(''::text, array[15]))`)
    const [row] = await database.sql`select count(*)::int as writers from pg_locks
      where locktype = 'relation' and granted and mode = 'RowExclusiveLock' and relation = 'receipts'::regclass
        and database = (select oid from pg_database where datname = current_database())`
    expect(row?.writers).toBe(1)
  } finally {
    await writer.end()
  }
})
