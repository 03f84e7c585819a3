import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type NewReceipt, ReceiptWriter, type ReceiptWriterOptions } from '../../../src/actors/money/receipt-writer.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { severable } from '../../support/gateways/severed-database.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { type TestDatabase, testDatabase } from '../../support/run/postgres.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

let database: TestDatabase
const lines: { readonly event: string }[] = []
const log = createLog('debug', (text) => {
  for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line))
})
const ends: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  database = await testDatabase()
  lines.length = 0
})
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await database.drop()
})

function writer(changes: Partial<ReceiptWriterOptions> = {}) {
  const made = new ReceiptWriter({ macs: testMacs, ...database, flushMs: 20, log, ...changes })
  ends.push(() => made.stop().catch(() => {}))
  return made
}

function receipt(changes: Partial<Receipt> = {}, status?: 'held'): NewReceipt & { readonly facts: Receipt } {
  const facts: Receipt = receiptFacts({
    nodeId: newId('node'),
    runtimeId: newId('rt'),
    runtimeKind: 'llama.cpp',
    modelId: 'llama-3.1-8b',
    completedAt: '2026-11-20T16:00:00.123Z',
    ...changes,
  })
  const text = receiptText(facts)
  return { facts, hash: textHash(text), text, customerId: 'local', ...(status === undefined ? {} : { status }) }
}

const stored = async () => Number((await database.sql`select count(*) from receipts`)[0]?.count)

test('§14: a receipt arrives as it was written', async () => {
  const receipts = writer()
  const one = receipt()
  receipts.write(one)
  await receipts.flush()
  const [row] = await database.sql`select * from receipts`
  expect(row).toMatchObject({
    receipt_hash: one.hash,
    issuer: 'gateway',
    request_id: one.facts.requestId,
    job_id: null,
    kind: 'hosted_chat',
    node_id: one.facts.nodeId,
    node_class: 'gpu',
    runtime_id: one.facts.runtimeId,
    runtime_kind: 'llama.cpp',
    model_id: 'llama-3.1-8b',
    prompt_tokens: 9,
    completion_tokens: 7,
    customer_id: 'local',
    status: 'accepted',
  })
  expect(new Date(row?.completed_at).toISOString()).toBe('2026-11-20T16:00:00.123Z')
  receipts.write(receipt({ jobId: 'job_1', modelId: 'a "quoted", ü' }, 'held'))
  await receipts.flush()
  const [held] = await database.sql`select * from receipts where status = 'held'`
  expect(held).toMatchObject({ job_id: 'job_1', model_id: 'a "quoted", ü' })
})

test('§14: written by themselves within the flush time, in groups', async () => {
  const receipts = writer()
  for (let index = 0; index < 1_300; index++) receipts.write(receipt())
  await waitUntil('all are there', async () => (await stored()) === 1_300)
  const [groups] = await database.sql`select count(*)::int as groups, count(distinct xmin::text)::int as inserts,
    max(rows) as largest from receipt_groups`
  expect(groups?.inserts).toBeLessThanOrEqual(4)
  expect(groups?.groups).toBeLessThanOrEqual(10)
  expect(groups?.largest).toBe(250)
})

test('§14: a receipt that may change stands in a row of its own, and twice it is one', async () => {
  const receipts = writer()
  const held = receipt({}, 'held')
  receipts.write(held)
  receipts.write({ ...held, status: 'accepted' })
  await receipts.flush()
  receipts.write(held)
  await receipts.flush()
  expect(await stored()).toBe(1)
  const [row] = await database.sql`select status from receipt_rows`
  expect(row?.status).toBe('held')
})

test('§14: groups that are sent again, because nobody heard that they were written, are there once', async () => {
  let lost = 3
  /** Its answers are lost at first, when what was asked is done. */
  const heard = async <T>(answer: PromiseLike<T>): Promise<T> => {
    const found = await answer
    if (lost-- > 0) throw Object.assign(new Error('lost'), { code: 'CONNECTION_CLOSED' })
    return found
  }
  const { sql } = database
  const deaf = {
    unsafe: (...args: Parameters<typeof sql.unsafe>) => heard(sql.unsafe(...args)),
    begin: (work: never) => heard(sql.begin(work)),
  } as unknown as typeof sql
  const receipts = writer({ sql: deaf, flushMs: 1 })
  const many = Array.from({ length: 700 }, (_, at) => receipt({ promptTokens: at }))
  for (const one of many.slice(0, 130)) receipts.write(one)
  await expect(receipts.flush()).rejects.toThrow()
  for (const one of many.slice(130)) receipts.write(one)
  await waitUntil('all are there', async () => lost < 0 && (await stored()) >= 700)
  await receipts.flush()
  expect(await stored()).toBe(700)
  const rows = await database.sql`select receipt_hash as hash, prompt_tokens as at from receipts order by seq`
  expect(rows.map(({ hash }) => hash).sort()).toEqual(many.map(({ hash }) => hash).sort())
})

test('§14: a stop loses nothing', async () => {
  const receipts = writer({ flushMs: 1_000 })
  for (let index = 0; index < 700; index++) receipts.write(receipt())
  await receipts.stop()
  expect(await stored()).toBe(700)
})

test('§14: without the database receipts wait, in bounds', async () => {
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 2 })
  ends.push(() => way.close())
  ends.push(() => through.close())
  const receipts = writer({ ...through, queueMax: 20 })
  receipts.write(receipt())
  await receipts.flush()
  await way.sever()
  for (let index = 0; index < 18; index++) receipts.write(receipt())
  await expect(receipts.flush()).rejects.toThrow()
  for (let index = 0; index < 5; index++) receipts.write(receipt())
  expect(receipts.dropped()).toBe(3)
  log.flush()
  expect(lines.map((line) => line.event)).toContain('receipts_wait')
  expect(lines.map((line) => line.event)).toContain('receipts_dropped')
  await way.restore()
  await waitUntil('those that waited are there', async () => (await stored()) === 21)
  expect(receipts.dropped()).toBe(3)
})

test('§14: thousands that waited for the database arrive as they were, the usual and the odd ones, each once', async () => {
  const way = await severable(database.url)
  const through = openDatabase({ url: way.url, connectionsMax: 2 })
  ends.push(() => way.close())
  ends.push(() => through.close())
  const receipts = writer({ ...through, flushMs: 1 })
  await way.sever()
  const many = Array.from({ length: 9_000 }, (_, at) => {
    const made = receipt({
      promptTokens: at,
      modelId: at % 7 === 0 ? `m\t${at}\\N\n ü😀` : 'm',
      jobId: at % 5 === 0 ? 'j\\' : null,
    })
    return at % 3 === 0 ? { hash: made.hash, text: made.text, customerId: made.customerId } : made
  })
  for (const one of many) receipts.write(one)
  await way.restore()
  await receipts.stop()
  const rows = await database.sql<{ hash: string; text: string }[]>`
    select receipt_hash as hash, concat_ws(' ', prompt_tokens, model_id, job_id, request_id) as text from receipts`
  const told = ({ text }: NewReceipt) => {
    const { prompt_tokens, model_id, job_id, request_id } = JSON.parse(text)
    return [prompt_tokens, model_id, job_id, request_id].filter((value) => value !== null).join(' ')
  }
  expect(new Map(rows.map(({ hash, text }) => [hash, text]))).toEqual(new Map(many.map((one) => [one.hash, told(one)])))
  expect(rows).toHaveLength(many.length)
})

test('§14: a receipt that the database will never take holds up no other', async () => {
  const receipts = writer()
  receipts.write(receipt())
  receipts.write(receipt({ modelId: 'nul \u0000' }))
  receipts.write(receipt())
  await receipts.flush()
  expect(await stored()).toBe(2)
  expect(receipts.dropped()).toBe(1)
})
