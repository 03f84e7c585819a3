import { expect, test } from 'bun:test'
import { openDatabase, sessionOf } from '../../src/db/client.ts'
import { createLog } from '../../src/log.ts'
import { newAccount } from '../support/gateways/accounts.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { markOf } from '../support/money/receipt-macs.ts'
import { turnedLog } from '../support/money/turned-log.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway({ SVC_LOG_INTERVAL_MS: '50' }))
const { sql } = gateway.database

const hashOf = (digit: string) => `0x${digit.repeat(64)}`
const receipt = (digit: string) => `
  insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
    prompt_tokens, completion_tokens, started_at, completed_at, customer_id, mac)
  values ('${hashOf(digit)}', 'gateway', 'req_${digit}', 'hosted_chat', 'n', 'c', 'r', 'k', 'm', 1, 1, now(), now(), 'cus_a',
    '${markOf(hashOf(digit), 'cus_a')}')`
const credit = (customerId: string, entryId: string) => `
  with raised as (update customers set balance_wei = balance_wei + 5 where customer_id = '${customerId}' returning balance_wei)
  insert into ledger_rows (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei)
  select '${entryId}', '${customerId}', 'admin_credit', 5, balance_wei, 0 from raised`
const batch = `
  insert into payout_batches (batch_id, merkle_root, payout_count, total_amount_wei) values ('bat_1', '${hashOf('e')}', 1, 1)`

/** Subjects of the entries of a kind, in their order. */
const logged = async (kind: string) =>
  (await sql<{ subject: string }[]>`select subject from log_entries where kind = ${kind} order by entry_index`).map(
    ({ subject }) => subject,
  )
const isLogged = async (digit: string) =>
  (await gateway.ask('GET', `/v1/public/log/proof?receipt_hash=${hashOf(digit)}`)).status === 200
const exported = async () => {
  const [chain] = await sql<{ writer: string }[]>`select writer_id as writer from audit_chains limit 1`
  return (await gateway.ask('GET', `/v1/admin/audit/export?writer_id=${chain?.writer}`, { as: 'admin' })).status
}

/** What others see while a session has written these and commits them later. */
async function whileOpen<T>(statements: readonly string[], meanwhile: (pid: number) => Promise<T>): Promise<T> {
  const open = sessionOf(sql)
  try {
    await open.unsafe('begin')
    for (const statement of statements) await open.unsafe(statement)
    const [session] = await open<{ pid: number }[]>`select pg_backend_pid() as pid`
    const seen = await meanwhile(session?.pid ?? 0)
    await open.unsafe('commit')
    return seen
  } finally {
    await open.end()
  }
}

// The whole log stood still, and who asked for an export of the audit waited for ever.
test('§31: a transaction that stays open in the ledger keeps back the ledger alone, and its own entry enters when it ends', async () => {
  const { id } = await newAccount(gateway, '1000')
  await gateway.gateway.sequencer.catchUp({ heads: true })
  const before = await logged('credit')
  const heads = await logged('audit')
  await whileOpen([credit(id, 'led_open')], async () => {
    // Its number is larger, and it is committed first.
    await newAccount(gateway, '500')
    await sql.unsafe(receipt('a'))
    await sql.unsafe(batch)
    await waitUntil('the receipt in the log', () => isLogged('a'))
    await waitUntil('the batch in the log', async () => (await logged('batch')).includes('bat_1'))
    expect(await exported()).toBe(200)
    expect((await logged('audit')).length).toBeGreaterThan(heads.length)
    expect(await logged('credit')).toEqual(before)
  })
  await waitUntil('both credits in the log', async () => (await logged('credit')).length === before.length + 2)
  const [first, second] = (await logged('credit')).slice(before.length)
  expect(first).toBe('led_open')
  expect(second).not.toBe('led_open')
  const { faults } = await gateway.gateway.checkBooks()
  // Batch, credit and receipt are made up; nothing else is wrong.
  expect(faults.map(({ rule }) => rule).sort()).toEqual([
    'every batch is the sum of its payouts',
    'every credit has its approval event',
    'every receipt has the hash of its facts',
  ])
})

test('§31: a batch waits for a transaction that is open in the receipts, for which it may pay; the ledger does not', async () => {
  const before = await logged('credit')
  await whileOpen([receipt('b')], async () => {
    await sql.unsafe(batch.replace('bat_1', 'bat_2'))
    await newAccount(gateway, '500')
    await waitUntil('the credit in the log', async () => (await logged('credit')).length === before.length + 1)
    expect(await exported()).toBe(200)
    expect([await isLogged('b'), await logged('batch')]).toEqual([false, ['bat_1']])
  })
  await waitUntil('the receipt in the log', () => isLogged('b'))
  await waitUntil('the batch in the log', async () => (await logged('batch')).includes('bat_2'))
})

test('§31: what holds the log back is told once, with its session, and once that it goes on; after half a minute nothing is promised, after five the log is shown as stopped', async () => {
  const lines: { readonly event: string }[] = []
  const log = createLog('info', (text) =>
    lines.push(
      ...text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ),
  )
  const told = () => {
    log.flush()
    return lines.map(({ event }) => event)
  }
  const opened = openDatabase({ url: gateway.database.url, connectionsMax: 2 })
  const { sequencer, start, turn } = turnedLog(opened.db, log)
  try {
    const pid = await whileOpen([receipt('c')], async (pid) => {
      await start()
      await turn(9_999)
      expect(told()).toEqual([])
      await turn(1)
      await turn(19_999)
      expect([told(), sequencer.takesReceipts()]).toEqual([['log_held_back'], true])
      await turn(1)
      expect([sequencer.takesReceipts(), sequencer.stopped()]).toEqual([false, false])
      await turn(269_999)
      expect([told(), sequencer.stopped()]).toEqual([['log_held_back'], false])
      await turn(1)
      expect([told(), sequencer.stopped()]).toEqual([['log_held_back'], true])
      return pid
    })
    expect(lines[0]).toMatchObject({ source: 'receipts', pids: String(pid), held_ms: 10_000 })
    await turn(1)
    expect([told(), sequencer.stopped(), sequencer.takesReceipts()]).toEqual([
      ['log_held_back', 'log_goes_on'],
      false,
      true,
    ])
  } finally {
    await sequencer.stop()
    await opened.close()
  }
})
