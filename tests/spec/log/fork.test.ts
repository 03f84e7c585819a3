import { expect, test } from 'bun:test'
import { sql } from 'drizzle-orm'
import { parseCheckpoint } from '../../../src/protocol/log/checkpoint.ts'
import { parseNote } from '../../../src/protocol/log/note.ts'
import { textHash } from '../../../src/protocol/receipts/receipt.ts'
import { json, startTestGateway, stillLog, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { keepLog } from '../../support/money/kept-log.ts'

let made = 0
async function receipts(gateway: TestGateway, count: number): Promise<void> {
  const rows = Array.from({ length: count }, () => {
    const text = `{"issuer":"gateway","request_id":"req_${made++}","job_id":null,"kind":"hosted_chat","node_id":"n","node_class":"c","runtime_id":"r","runtime_kind":"k","model_id":"m","prompt_tokens":1,"completion_tokens":1,"started_at":"2026-11-20T15:59:59.000Z","completed_at":"2026-11-20T16:00:00.000Z"}`
    return { hash: textHash(text), text, customerId: 'cus_a' }
  })
  await insertReceipts(gateway.database, rows)
}

const checkpointOf = async (gateway: TestGateway) =>
  parseCheckpoint(parseNote(await (await gateway.ask('GET', '/v1/public/log/checkpoint')).text())?.text ?? '')

test('§31: a restore from an older backup is a fork: found, named, and nothing goes on before the operator says so', async () => {
  let note: string | null = null
  const logMemory = { read: () => note, write: (text: string) => (note = text) }
  const first = await startTestGateway(stillLog, undefined, { logMemory })
  const name = (confirm?: string) =>
    first.ask('POST', '/v1/admin/log/fork', { as: 'admin', json: { reason: 'restored', ...(confirm && { confirm }) } })
  await receipts(first, 300)
  await first.gateway.sequencer.catchUp()
  const putBack = await keepLog(first.database.sql)
  expect((await json(await name('NAME THE FORK'))).code).toBe('invalid_state')
  await receipts(first, 20)
  await first.gateway.sequencer.catchUp()
  const lost = await checkpointOf(first)
  await putBack()

  // The gateway that runs finds it, and so does one that starts with the same memory.
  await receipts(first, 30)
  await first.gateway.sequencer.catchUp()
  const second = await startTestGateway(stillLog, undefined, { logMemory, beside: first })
  await second.gateway.sequencer.catchUp()
  for (const gateway of [first, second]) {
    expect(gateway.gateway.sequencer.fork()).toContain(`\n${lost?.size}\n`)
    expect(gateway.logged().filter(({ msg, event }) => (event ?? msg) === 'log_forked')).toHaveLength(1)
  }
  // The log begins with its marks and its cutoff.
  expect((await checkpointOf(first))?.size).toBe(302)

  expect((await json(await name())).code).toBe('confirmation_required')
  const named = await json(await name('NAME THE FORK'))
  expect(named).toMatchObject({ origin: `${lost?.origin}/2`, size: 303, lost_size: lost?.size })
  expect(named.lost_checkpoint).toBe(note as unknown as string)
  await first.gateway.sequencer.catchUp()
  await second.gateway.sequencer.catchUp()
  expect([first.gateway.sequencer.fork(), second.gateway.sequencer.fork()]).toEqual([null, null])
  const now = await checkpointOf(first)
  expect([now?.origin, now?.size]).toEqual([`${lost?.origin}/2`, 333])
  const again = await first.database.db.execute(sql`select 1 from log_entries where kind = 'fork'`)
  expect(again).toHaveLength(1)
  await second.stop()
  await first.stop()
})

test('§31: a restore from before a named fork is one, too: no second history of the old name, and no name twice', async () => {
  let note: string | null = null
  const logMemory = { read: () => note, write: (text: string) => (note = text) }
  const first = await startTestGateway(stillLog, undefined, { logMemory })
  const name = async (gateway: TestGateway) => {
    const body = { reason: 'restored', confirm: 'NAME THE FORK' }
    return json(await gateway.ask('POST', '/v1/admin/log/fork', { as: 'admin', json: body }))
  }
  const grow = async (gateway: TestGateway, count: number) => {
    await receipts(gateway, count)
    await gateway.gateway.sequencer.catchUp()
  }
  await grow(first, 5)
  const { origin } = (await checkpointOf(first)) ?? {}
  const putBack = await keepLog(first.database.sql)
  await grow(first, 5)
  await putBack()
  await grow(first, 1)
  expect(await name(first)).toMatchObject({ origin: `${origin}/2` })
  await grow(first, 1)
  expect(note as unknown as string).toStartWith(`${origin}/2\n`)

  // The same old backup again: its log has the first name.
  await putBack()
  await grow(first, 3)
  const second = await startTestGateway(stillLog, undefined, { logMemory, beside: first })
  await second.gateway.sequencer.catchUp()
  for (const gateway of [first, second]) {
    expect(gateway.gateway.sequencer.fork()).toStartWith(`${origin}/2\n`)
    expect(await checkpointOf(gateway)).toMatchObject({ origin, size: 7 })
  }
  expect(await name(second)).toMatchObject({ origin: `${origin}/3`, lost_checkpoint: note as unknown as string })
  await grow(first, 1)
  await second.gateway.sequencer.catchUp()
  expect([first.gateway.sequencer.fork(), second.gateway.sequencer.fork()]).toEqual([null, null])
  expect((await checkpointOf(second))?.origin).toBe(`${origin}/3`)
  await second.stop()
  await first.stop()
})
