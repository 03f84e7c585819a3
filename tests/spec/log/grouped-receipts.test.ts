import { afterEach, expect, test } from 'bun:test'
import { parseCheckpoint, parseProofLines } from '../../../src/protocol/log/checkpoint.ts'
import { parseLogEntry } from '../../../src/protocol/log/log-entry.ts'
import { leafHash, rootByInclusion } from '../../../src/protocol/log/merkle-log.ts'
import { parseNote } from '../../../src/protocol/log/note.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { insertGroup, insertReceipts } from '../../support/money/insert-receipts.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'
import { tamper } from '../../support/money/tampering.ts'
import { fixture } from '../../support/run/fixture.ts'

const made: string[] = []

function receipt(at: number) {
  const facts: Receipt = receiptFacts({
    jobId: at % 2 === 0 ? null : `job_${at}`,
    modelId: at % 3 === 0 ? 'm' : 'other',
    promptTokens: at,
    completionTokens: 2,
  })
  const text = receiptText(facts)
  made.push(textHash(text))
  return { hash: textHash(text), text, customerId: 'cus_a', facts }
}

const kept = ['receipt_groups', 'receipt_rows', 'log_receipts'] as const

const gateway = await fixture(startTestGateway(stillLog))
// Groups and rows in turns, some of which share a run of the log.
for (let round = 0; round < 4; round++) {
  await insertGroup(
    gateway.database,
    Array.from({ length: Math.min(250, 1 + 130 * round) }, (_, at) => receipt(at)),
  )
  await insertReceipts(gateway.database, [receipt(1_000 + round)])
  if (round % 2 === 1) await gateway.gateway.sequencer.catchUp()
}
for (const table of kept) await gateway.database.sql.unsafe(`create table kept_${table} as table ${table}`)

afterEach(async () => {
  await tamper(
    gateway,
    kept.flatMap((table) => [
      `delete from ${table}`,
      `insert into ${table} ${table === 'receipt_rows' ? 'overriding system value' : ''} select * from kept_${table}`,
    ]),
  )
})

const rules = async () => new Set((await gateway.gateway.checkBooks()).faults.map(({ rule }) => rule as string))

test('§31: receipts in groups stand in the log once each, in the order of their numbers', async () => {
  const entries = await gateway.database.sql<{ hash: string }[]>`select hash from log_contents where kind = 'receipt'
    order by log_contents.entry_index`
  const rows = await gateway.database.sql<{ hash: string }[]>`select receipt_hash as hash from receipts order by seq`
  expect(entries.map(({ hash }) => hash)).toEqual(rows.map(({ hash }) => hash))
  expect(new Set(entries.map(({ hash }) => hash)).size).toBe(entries.length)
  expect(entries).toHaveLength(1 + 131 + 250 + 250 + 4)
  expect(await gateway.gateway.checkBooks()).toMatchObject({ faults: [], receipts: entries.length })
})

test('§31: each proves itself: first, last and in between of its group and of its run', async () => {
  const { root } =
    parseCheckpoint(parseNote(await (await gateway.ask('GET', '/v1/public/log/checkpoint')).text())?.text ?? '') ?? {}
  for (const hash of [
    made[0],
    made[1],
    made[2],
    made[131],
    made[132],
    made[133],
    made[300],
    made.at(-2),
    made.at(-1),
  ]) {
    const body = await json(await gateway.ask('GET', `/v1/public/log/proof?receipt_hash=${hash}`))
    expect(parseLogEntry(String(body.entry))).toEqual({ kind: 'receipt', hash: hash ?? '' })
    const hashes = parseProofLines(body.proof as string[]) ?? []
    expect(
      rootByInclusion(leafHash(Buffer.from(String(body.entry))), Number(body.index), Number(body.size), hashes),
    ).toEqual(root ?? null)
    const own = await json(await gateway.ask('GET', `/v1/admin/receipts/${hash}`, { as: 'operator' }))
    expect(own).toMatchObject({ receipt_hash: hash, status: 'accepted' })
  }
})

const group = '(select max(last_seq) from receipt_groups)'
test.each([
  [
    'the tokens of one',
    'every receipt has the hash of its facts',
    `update receipt_groups set prompt_tokens[3] = 9000 where last_seq = ${group}`,
  ],
  [
    'what all share',
    'every receipt has the hash of its facts',
    `update receipt_groups set shared[7] = 'node_b' where last_seq = ${group}`,
  ],
  ['a group, deleted', 'every receipt in the log is there', `delete from receipt_groups where last_seq = ${group}`],
  [
    'two that changed places',
    'the log is the tree of its checkpoint',
    `update receipt_groups g set hashes = substring(hashes from 33 for 32) || substring(hashes for 32) || substring(hashes from 65),
      first_hash = substring(hashes from 33 for 32),
      request_id = g.request_id[2:2] || g.request_id[1:1] || g.request_id[3:],
      job_id = g.job_id[2:2] || g.job_id[1:1] || g.job_id[3:], model_id = g.model_id[2:2] || g.model_id[1:1] || g.model_id[3:],
      prompt_tokens = g.prompt_tokens[2:2] || g.prompt_tokens[1:1] || g.prompt_tokens[3:] where last_seq = ${group}`,
  ],
  [
    'one that is there twice',
    'every receipt is there once',
    `insert into receipt_rows select receipt_hash, issuer, request_id, job_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
      prompt_tokens, completion_tokens, started_at, completed_at, customer_id, status, created_at from receipts
      where group_first_seq < group_last_seq limit 1`,
  ],
  [
    'a group that was slipped in before the end of the log',
    'every receipt is in the log',
    `insert into receipt_groups select 0, 0, 1, created_at, decode(repeat('ab', 32), 'hex'), '{0}', decode(repeat('ab', 32), 'hex'), shared,
      customer_id, signature_ed25519, issuer, request_id[1:1], job_id[1:1], kind, node_id, node_class, runtime_id, runtime_kind, model_id[1:1],
      prompt_tokens[1:1], completion_tokens, started_ms, completed_ms from receipt_groups where last_seq = ${group}`,
  ],
] as const)('§31: a change of a group is found: %s', async (_what, rule, statement) => {
  expect(await tamper(gateway, [statement])).toBe(1)
  expect([...(await rules())]).toContain(rule)
})
