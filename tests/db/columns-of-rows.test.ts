import { beforeAll, describe, expect, test } from 'bun:test'
import { eq, sql } from 'drizzle-orm'
import fc from 'fast-check'
import { copyLine, copyRows, rowsOfLines } from '../../src/db/copy.ts'
import { type NewReceipt, receiptLine } from '../../src/db/queries/money/receipts.ts'
import { insertRequestRecords } from '../../src/db/queries/requests/request-groups.ts'
import {
  getRequestRecord,
  keepRequestRecords,
  type RequestRecord,
} from '../../src/db/queries/requests/request-records.ts'
import { requestPage } from '../../src/db/queries/requests/request-search.ts'
import { receipts } from '../../src/db/schema/partitioned/receipts.ts'
import { newId } from '../../src/ids.ts'
import { type Receipt, receiptText, textHash } from '../../src/protocol/receipts/receipt.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { everyRequest, ofRecords, requestColumns } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Rows go to the server as the texts of arrays, and many by COPY: what means something in such a text must come back as it
 * was.
 */
const oddNames = [
  'null',
  'NULL',
  '',
  ' ',
  '{}',
  'a,b',
  '"',
  '\\',
  '\\"',
  "'",
  'a\nb',
  'a\tb\r\n',
  '\\N',
  '\\.',
  '\\n\\t',
  '\u001f',
  '§ü😀',
  '{"a":[1,"b"]}',
  'text',
] as const

const database = await fixture(testDatabase())

const factsOf = (modelId: string): Receipt => ({
  issuer: 'gateway',
  requestId: newId('req'),
  jobId: modelId,
  kind: 'hosted_chat',
  nodeId: newId('node'),
  nodeClass: 'gpu',
  runtimeId: newId('rt'),
  runtimeKind: 'vllm',
  modelId,
  promptTokens: 0,
  completionTokens: 2 ** 31 - 1,
  startedAt: '2026-11-20T15:59:59.000Z',
  completedAt: '2026-11-20T16:00:00.123Z',
})

/** In one statement, and so often that they go by COPY. */
const ways = [
  ['a few', oddNames],
  ['many', [...oddNames, ...oddNames, ...oddNames]],
] as const

test.each(ways)('§14: receipts of models and jobs with odd names come back as they were: %s', async (_, odd) => {
  const made = odd.map((name) => ({ name, text: receiptText(factsOf(name)) }))
  const rows = made.map(({ text, name }) => ({ text, hash: textHash(text), customerId: name, nodeReceipt: name }))
  await insertReceipts(database, rows)
  for (const { hash, text, customerId } of rows) {
    const [row] = await database.db.select().from(receipts).where(eq(receipts.receiptHash, hash))
    expect(row).toMatchObject({ customerId, nodeReceipt: customerId, signatureEd25519: null, billed: false })
    const times = { startedAt: row?.startedAt.toISOString(), completedAt: row?.completedAt.toISOString() }
    expect(receiptText({ ...row, ...times } as Receipt)).toBe(text)
  }
})

test.each(ways)(
  '§32: requests with odd names come back as they were, also a group that is sent again: %s',
  async (_, odd) => {
    const at = new Date()
    await keepRequestRecords(database.db, at, at, at)
    const rows = odd.map(
      (name): RequestRecord => ({
        requestId: newId('req'),
        at,
        customerId: name,
        keyId: null,
        operation: 'chat',
        stream: true,
        model: name,
        nodeId: null,
        tries: 2,
        queueMs: 0,
        loadMs: null,
        sentMs: 1,
        ttftMs: 2,
        durationMs: 3,
        promptTokens: null,
        completionTokens: 4,
        cachePercent: 100,
        status: 200,
        code: name,
        costWei: (2n ** 256n - 1n).toString(),
        receiptHash: null,
        failedTries: [{ node_id: name, code: name, started_ms: 0, duration_ms: 1 }],
        tags: name,
      }),
    )
    const [first] = rows
    await insertRequestRecords(database, [first as RequestRecord], ofRecords)
    // After an answer that was lost: the same again with what has come meanwhile, then once more.
    await insertRequestRecords(database, rows, ofRecords)
    await insertRequestRecords(database, rows.slice(0, 1), ofRecords)
    for (const row of rows) expect(await getRequestRecord(database.db, row)).toEqual(row)
    const [{ count } = { count: '' }] = await database.sql<{ count: string }[]>`
      select count(*) from request_records where at = ${at.toISOString()}::timestamptz`
    expect(Number(count)).toBe(rows.length)
  },
)

test('what is written for COPY is read back as it was, whatever stands in it', () => {
  const value = fc.oneof(fc.constantFrom(null, ...oddNames), fc.string({ unit: 'binary' }))
  fc.assert(
    fc.property(fc.array(fc.array(value, { minLength: 3, maxLength: 3 }), { minLength: 1 }), (rows) => {
      expect(rowsOfLines(rows.map(copyLine).join(''))).toEqual(rows)
    }),
  )
})

test('§14: the line of a receipt is the same whether its text is read again or not', () => {
  const name = fc.oneof(fc.constantFrom(...oddNames), fc.string({ unit: 'binary' }))
  const beside = fc.constantFrom(
    {},
    { status: 'held' },
    { billed: true },
    { nodeReceipt: '{"a":1}' },
    { signature: 'x\t' },
  )
  const nonces = fc.constantFrom(
    {},
    { clientNonce: 'n'.repeat(16), requestCommitment: '0x1', responseCommitment: null },
  )
  fc.assert(
    fc.property(
      name,
      name,
      name,
      fc.option(name, { nil: null }),
      beside,
      nonces,
      (modelId, customerId, nodeClass, jobId, more, bound) => {
        const facts = { ...factsOf(modelId), nodeClass, jobId, ...bound } as Receipt
        const text = receiptText(facts)
        const receipt = { text, hash: textHash(text), customerId, ...more } as NewReceipt
        expect(receiptLine({ ...receipt, facts, mac: 'm' })).toBe(receiptLine({ ...receipt, mac: 'm' }))
      },
    ),
  )
})

test('§14: a group of receipts of which one is there already is written all the same, and the one stays as it is', async () => {
  const rows = Array.from({ length: 100 }, () => {
    const text = receiptText(factsOf('in a group'))
    return { text, hash: textHash(text), customerId: 'cus_first' }
  })
  const [first, ...others] = rows
  if (first === undefined) throw new Error('no rows')
  await insertReceipts(database, [first])
  const again = rows.map((row) => ({ ...row, customerId: 'cus_again' }))
  await insertReceipts(database, again)
  // The whole group once more, as after an answer that was lost, and with one of them twice.
  await insertReceipts(database, [...again, first])
  const hashes = (customerId: string) =>
    database.db.select({ hash: receipts.receiptHash }).from(receipts).where(eq(receipts.customerId, customerId))
  expect((await hashes('cus_first')).map(({ hash }) => hash)).toEqual([first.hash])
  expect((await hashes('cus_again')).map(({ hash }) => hash).sort()).toEqual(others.map(({ hash }) => hash).sort())
})

test('gateways of the version before, which send columns as JSON, write beside this one', async () => {
  const facts = factsOf('of JSON')
  const text = receiptText(facts)
  const hash = textHash(text)
  const { issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id, ...rest } =
    JSON.parse(text)
  const { prompt_tokens, completion_tokens, started_at, completed_at } = rest
  const own = [hash, 'cus_a', null, 'accepted', false, null]
  const of = [issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id]
  const counted = [prompt_tokens, completion_tokens, started_at, completed_at, null, null, null, null]
  const columns = (values: readonly unknown[]) =>
    JSON.stringify(values.map((value) => (value === null ? '{NULL}' : `{${JSON.stringify(String(value))}}`)))
  await database.db.execute(sql`select receipts_insert(${columns([...own, ...of, ...counted])}::text::json)`)
  const found = await database.db.select().from(receipts).where(eq(receipts.receiptHash, hash))
  expect(found).toHaveLength(1)
  expect(found[0]).toMatchObject({
    customerId: 'cus_a',
    modelId: 'of JSON',
    completionTokens: 2 ** 31 - 1,
    billed: false,
  })
})

describe('§32: requests that a gateway of a version before writes row by row, beside this one', () => {
  const at = new Date()
  beforeAll(() => keepRequestRecords(database.db, at, at, at))
  const written = {
    model: '{m,"n',
    nodeId: 'node_a',
    tries: 1,
    ttftMs: 2,
    durationMs: 3,
    status: 502,
    code: 'upstream_error',
    costWei: (2n ** 256n - 1n).toString(),
    failedTries: [{ node_id: 'node_a', code: 'upstream_error', started_ms: 0, duration_ms: 1 }],
  }
  const valuesOf = (requestId: string) => {
    const { model, nodeId, tries, ttftMs, durationMs, status, code, costWei, failedTries } = written
    const asked = [
      requestId,
      at.toISOString(),
      'cus_a',
      null,
      'chat',
      false,
      model,
      nodeId,
      tries,
      0,
      null,
      null,
      ttftMs,
    ]
    return [...asked, durationMs, null, null, null, status, code, costWei, null, JSON.stringify(failedTries)]
  }
  const columnText = (value: unknown) => (value === null ? '{NULL}' : `{${JSON.stringify(String(value))}}`)
  const found = (requestId: string) => getRequestRecord(database.db, { at, requestId })

  test.each(['columns', 'JSON'])('by its function, as %s', async (as) => {
    const requestId = newId('req')
    const columns = valuesOf(requestId).map(columnText)
    for (let turn = 0; turn < 2; turn++) {
      await (as === 'JSON'
        ? database.sql`select request_records_insert(${JSON.stringify(columns)}::text::json)`
        : database.sql`select request_records_insert_columns(array(select json_array_elements_text(${JSON.stringify(columns)}::text::json)))`)
    }
    expect(await found(requestId)).toMatchObject(written)
    const { records } = await requestPage(database.db, { ...everyRequest, status: 502, nodeId: 'node_a' }, null, 10)
    expect(records.filter((record) => record.requestId === requestId)).toHaveLength(1)
  })

  test('by COPY', async () => {
    const ids = Array.from({ length: 40 }, () => newId('req'))
    await copyRows(
      database.sql,
      `request_records (${requestColumns})`,
      ids.map((id) => copyLine(valuesOf(id))),
    )
    for (const requestId of ids) expect(await found(requestId)).toMatchObject(written)
  })
})

test('a gateway of an earlier version, which sends objects, writes its receipts beside this one', async () => {
  const facts = factsOf('of before')
  const text = receiptText(facts)
  const hash = textHash(text)
  const row = { hash, customer_id: 'cus_a', signature: null, status: 'held', billed: true, ...JSON.parse(text) }
  await database.db.execute(sql`select receipts_insert(${JSON.stringify([row, row])}::text::json)`)
  const found = await database.db.select().from(receipts).where(eq(receipts.receiptHash, hash))
  expect(found).toHaveLength(1)
  expect(found[0]).toMatchObject({ modelId: 'of before', customerId: 'cus_a', status: 'held', billed: true })
  expect(found[0]).toMatchObject({ promptTokens: 0, completionTokens: 2 ** 31 - 1, clientNonce: null })
})
