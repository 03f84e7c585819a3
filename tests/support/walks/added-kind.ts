import { comparedDocuments } from '../../../scripts/settings-table.ts'
import { vectorsText } from '../../../scripts/vectors.ts'
import { lockCustomer } from '../../../src/db/queries/accounts/accounts.ts'
import { insertOperatorEntry, lockLedger } from '../../../src/db/queries/money/ledger.ts'
import type { OperatorKind } from '../../../src/protocol/money/kinds.ts'
import { enteringKinds, sumFigure } from '../../../src/protocol/money/moves.ts'
import { json, startTestGateway } from '../gateways/http-gateway.ts'

/** Run in a copy of the tree whose table of money has the row `gift`: prints what came of it, everywhere that a kind is seen. */
const gateway = await startTestGateway()
const { db, sql } = gateway.database
const ask = async (method: string, path: string, body?: object) =>
  json(await gateway.ask(method, path, { as: 'admin', ...(body === undefined ? {} : { json: body }) }))

const { customer_id } = await ask('POST', '/v1/admin/customers', { display_name: 'Ada' })
const customerId = String(customer_id)
const kind = 'gift' as string as OperatorKind
await db.transaction(async (tx) => {
  await lockLedger(tx)
  await lockCustomer(tx, customerId)
  await insertOperatorEntry(tx, { kind, entryId: 'led_gift', customerId, amountWei: 5n, reason: 'welcome' })
})
const faults = async () => {
  await gateway.gateway.sequencer.catchUp({ heads: true })
  return (await gateway.gateway.checkBooks()).faults.map(({ rule }) => rule)
}
const withoutEvent = await faults()
// Its action is that of credits, so that a credit of this amount leaves the event.
await ask('POST', `/v1/admin/customers/${customerId}/credits`, { amount_wei: '5' })
const sound = await faults()

const env = { ...process.env, SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.operator }
const books = Bun.spawn([process.execPath, 'src/cli/main.ts', 'audit', 'books'], {
  env,
  stdout: 'pipe',
  stderr: 'inherit',
})
const command = await new Response(books.stdout).text()
const proof = await ask('GET', '/v1/admin/ledger/proof')
const usage = await ask('GET', `/v1/admin/customers/${customerId}/usage-export`)
const logged = await sql<{ kind: string; subject: string }[]>`
  select kind, subject from log_entries where subject = 'led_gift'`
const openapi = JSON.stringify(await json(await gateway.ask('GET', '/openapi.json')))

await sql.begin(async (tx) => {
  await tx`set local session_replication_role = 'replica'`
  await tx`update ledger_rows set reason = 'by wish' where entry_id = 'led_gift'`
})
process.stdout.write(
  JSON.stringify({
    withoutEvent,
    sound,
    tampered: await faults(),
    proof,
    usage: usage.usage,
    logged: [...logged],
    command,
    console: enteringKinds.map(sumFigure),
    enumerated: openapi.includes('"gift"') && openapi.includes('"gifts_wei"'),
    vectors: await vectorsText(),
    documents: comparedDocuments()
      .flatMap(({ should }) => should.split('\n'))
      .filter((line) => line.includes('`gift`')),
  }),
)
await gateway.stop()
