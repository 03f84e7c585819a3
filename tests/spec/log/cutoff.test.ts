import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect } from '../../../src/db/client.ts'
import { parseNoteKey } from '../../../src/protocol/log/note.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { fromBase64url } from '../../../src/protocol/signing/base64url.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { verifyBundle } from '../../../src/protocol/verify/bundle.ts'
import { json, startTestGateway, stillLog, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { holdLog } from '../../support/money/held-log.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'
import { markRows } from '../../support/money/receipt-macs.ts'
import { tamper } from '../../support/money/tampering.ts'
import { scoped } from '../../support/run/fixture.ts'

const node = signingKey(new Uint8Array(32).fill(5))
type Sql = ReturnType<typeof connect>

/** A receipt in the name of the node, from long ago, as a version before node signatures wrote it; `signed`: as one after. */
async function received(sql: Pick<Sql, 'unsafe'>, signed: boolean, seq?: number): Promise<string> {
  const facts = receiptFacts({
    issuer: 'node',
    kind: 'private_job',
    promptTokens: 1,
    completionTokens: 2,
    startedAt: '2025-11-20T15:59:59.000Z',
    completedAt: '2025-11-20T16:00:00.000Z',
  })
  const hash = textHash(receiptText(facts))
  const signature = signed ? `'${node.sign(receiptMessage(hash))}'` : 'null'
  await sql.unsafe(`insert into receipt_rows (receipt_hash, seq, issuer, request_id, kind, node_id, node_class, runtime_id,
      runtime_kind, model_id, prompt_tokens, completion_tokens, started_at, completed_at, created_at, customer_id, signature_ed25519)
    overriding system value
    values ('${hash}', ${seq ?? "nextval('receipts_seq_seq')"}, 'node', '${facts.requestId}', 'private_job', 'node_a', 'gpu', 'rt_a',
      'vllm', 'm', 1, 2, '${facts.startedAt}', '${facts.completedAt}', '${facts.completedAt}', 'cus_a', ${signature})`)
  return hash
}

/** What an earlier version left: a node with its key, and so many receipts without a signature. */
const left =
  (unsigned: number, hashes: string[] = []) =>
  async (url: string) => {
    const sql = connect(url, { max: 1 })
    const key = Buffer.from(fromBase64url(node.publicKey, 32) ?? [])
    await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
    values ('cus_a', 'a', '\\x01', '\\x02')`
    await sql`insert into nodes (node_id, customer_id, name, kind, identity_key, visibility, privacy_class, node_class)
    values ('node_a', 'cus_a', 'a', 'agent', ${key}, 'private', 'private', 'gpu')`
    for (let at = 0; at < unsigned; at++) hashes.push(await received(sql, false))
    // A transaction that was rolled back leaves a number that no row has.
    await sql`select nextval('receipts_seq_seq')`
    hashes.push(await received(sql, true))
    await sql.end()
    return url
  }

const cutoffs = ({ database }: TestGateway) =>
  database.sql<{ at: number; subject: string }[]>`
    select entry_index::int as at, subject from log_entries where kind = 'cutoff' order by 1`
const rules = async ({ gateway }: TestGateway) => [
  ...new Set((await gateway.checkBooks()).faults.map(({ rule }) => rule as string)),
]

let gateway: TestGateway
const hashes: string[] = []
beforeAll(async () => {
  gateway = await startTestGateway(stillLog, left(3, hashes))
  await gateway.gateway.sequencer.catchUp()
})
afterAll(() => gateway.stop())

const bearsRule = 'every receipt of a node bears its signature'
const setRule = 'the receipts without one are as the cutoff in the log holds them'

test('§31: receipts from before node signatures are a class of their own, which one entry of the log closes', async () => {
  expect(await gateway.gateway.checkBooks()).toMatchObject({ faults: [], unsigned: 3, receipts: 4 })
  const [cutoff, ...others] = await cutoffs(gateway)
  expect(others).toEqual([])
  // Behind all of them, and the entry that lets the log take them without a mark.
  expect(cutoff?.at).toBe(5)
  const body = await json(await gateway.ask('GET', '/v1/admin/ledger/check', { as: 'operator' }))
  expect(body).toMatchObject({ sound: true, unsigned_receipts: 3 })
})

test('§31: a log of a new gateway begins with a cutoff that bounds nothing, and never gets another', async () => {
  await using fresh = await scoped(startTestGateway(stillLog))
  expect(await cutoffs(fresh)).toMatchObject([{ at: 1, subject: expect.stringMatching(/^0:0x/) }])
  const second = await startTestGateway(stillLog, undefined, { beside: fresh })
  for (const one of [fresh, second]) await one.gateway.sequencer.catchUp({ heads: true })
  await second.stop()
  expect(await cutoffs(fresh)).toHaveLength(1)
  const late = await received(fresh.database.sql, false)
  await markRows(fresh.database)
  await fresh.gateway.sequencer.catchUp()
  const { faults, unsigned } = await fresh.gateway.checkBooks()
  // Its row is dated back, too, to before its mark.
  const dated = { rule: 'every receipt was written when it was issued', subject: late } as const
  expect([faults, unsigned]).toEqual([[dated, { rule: bearsRule, subject: late }], 0])
})

test('§31: the cutoff comes behind a backlog that enters the log in several groups', async () => {
  await using many = await scoped(startTestGateway(stillLog, left(4_100)))
  await many.gateway.sequencer.catchUp()
  expect(await cutoffs(many)).toMatchObject([{ at: 4_102, subject: expect.stringMatching(/^4100:0x/) }])
  expect(await many.gateway.checkBooks()).toMatchObject({ faults: [], unsigned: 4_100 })
})

type Edit = readonly [what: string, rule: string, edit: () => Promise<unknown>]
const sql = (text: string) => () => tamper(gateway, [text])
/** What somebody with the database could do; each is undone. */
const edits: readonly Edit[] = [
  ['inserts one that is dated before', bearsRule, () => received(gateway.database.sql, false)],
  ['inserts one before all others', bearsRule, () => received(gateway.database.sql, false, -1)],
  ['inserts one between the old ones', setRule, () => received(gateway.database.sql, false, 4)],
  [
    'takes the signature from one that had it',
    setRule,
    () => tamper(gateway, [`update receipt_rows set signature_ed25519 = null where receipt_hash = '${hashes[3]}'`]),
  ],
  ['deletes one', setRule, () => tamper(gateway, [`delete from receipt_rows where receipt_hash = '${hashes[0]}'`])],
  [
    'exchanges one for one that had its signature',
    setRule,
    () =>
      tamper(gateway, [
        `update receipt_rows set signature_ed25519 = null where receipt_hash = '${hashes[3]}'`,
        `update receipt_rows set signature_ed25519 = '${'A'.repeat(86)}' where receipt_hash = '${hashes[0]}'`,
      ]),
  ],
  [
    'adds a second cutoff behind',
    setRule,
    sql(`insert into log_entries (entry_index, kind, hash, subject)
      select 99, 'cutoff', '0x${'12'.repeat(32)}', subject from log_entries where kind = 'cutoff'`),
  ],
  [
    'moves the cutoff behind what comes later',
    'the log is the tree of its checkpoint',
    sql("update log_entries set entry_index = 99 where kind = 'cutoff'"),
  ],
  [
    'makes another entry of it',
    'the log is the tree of its checkpoint',
    sql(`update log_entries set hash = '0x${'12'.repeat(32)}' where kind = 'cutoff'`),
  ],
  ['removes it', 'the log is the tree of its checkpoint', sql("delete from log_entries where kind = 'cutoff'")],
]

test.each([...edits])('§31: who %s is found: %s', async (_what, rule, edit) => {
  const { sql: database } = gateway.database
  // No turn of the log between the edit and the look.
  const letGo = await holdLog(database)
  const tables = ['receipt_rows', 'log_entries'] as const
  try {
    for (const table of tables) await database.unsafe(`create table kept_${table} as table ${table}`)
    expect(await rules(gateway)).toEqual([])
    await edit()
    expect(await rules(gateway)).toContain(rule)
  } finally {
    for (const table of tables) {
      const overriding = table === 'receipt_rows' ? 'overriding system value' : ''
      await tamper(gateway, [
        `delete from ${table}`,
        `insert into ${table} ${overriding} select * from kept_${table}`,
        `drop table kept_${table}`,
      ])
    }
    await letGo()
  }
})

test('§31: an exported receipt of the class proves itself by the cutoff; one that was slipped in later does not', async () => {
  const late = await received(gateway.database.sql, false)
  await gateway.gateway.sequencer.catchUp()
  const { keys } = await json(await gateway.ask('GET', '/v1/public/log/keys'))
  const trust = {
    logKeys: (keys as string[]).flatMap((key) => parseNoteKey(key) ?? []),
    witnessKeys: [],
    nodeKeys: [],
    auditKeys: [],
    witnessesMin: 0,
    logNeeded: true,
    remembered: () => [],
    verify: verifyEd25519,
  }
  const exported = async (hash: string) =>
    json(await gateway.ask('GET', `/v1/admin/receipts/${hash}`, { as: 'operator' }))
  for (const hash of hashes.slice(0, 3)) {
    const [verdict] = verifyBundle(await exported(hash), trust) ?? []
    expect(verdict).toMatchObject({ valid: true })
    expect(verdict?.checks.find(({ name }) => name === 'signature')).toMatchObject({ ok: null })
    expect(verifyBundle(await exported(hash), { ...trust, logKeys: [] })?.[0]?.valid).toBe(false)
  }
  const slipped = await exported(late)
  expect(slipped.log).toMatchObject({ cutoff: null })
  const { log } = (await exported(hashes[0] ?? '')) as { log: { cutoff: object } }
  const borrowed = { ...slipped, log: { ...(slipped.log as object), cutoff: log.cutoff } }
  for (const one of [slipped, borrowed]) {
    const [verdict] = verifyBundle(one, trust) ?? []
    const failed = verdict?.checks.flatMap(({ name, ok }) => (ok === false ? [name] : []))
    expect([verdict?.valid, failed]).toEqual([false, ['signature']])
  }
  expect(await rules(gateway)).toEqual([bearsRule])
  // The signed one has no need of it.
  expect(((await exported(hashes[3] ?? '')) as { log: object }).log).not.toHaveProperty('cutoff')
})
