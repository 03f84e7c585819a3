import { makeRoleToken } from '../../../src/actors/accounts/first-start.ts'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { fromBase64url } from '../../../src/protocol/signing/base64url.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { json, type TestGateway } from '../gateways/http-gateway.ts'
import { receiptFacts } from './receipt-facts.ts'
import { testMacs } from './receipt-macs.ts'

/** Everything that an operator with the database could want to change. */
const tables = [
  'customers',
  'gateway_keys',
  'admin_tokens',
  'admins',
  'model_entries',
  'nodes',
  'receipt_rows',
  'receipt_groups',
  'ledger_rows',
  'charge_groups',
  'reservations',
  'payout_rows',
  'fee_rows',
  'payout_batches',
  'log_entries',
  'log_receipts',
  'log_tiles',
  'log_state',
  'log_checkpoints',
  'admin_approval_events',
  'audit_purge_runs',
  'audit_chains',
] as const
const identity = new Set(['receipt_rows', 'ledger_rows'])

export interface Books {
  readonly customerId: string
  readonly idleCustomerId: string
  /** Of 500 credited 200 were taken back. */
  readonly debitedCustomerId: string
  /** Of the five that stand. */
  readonly hashes: readonly string[]
  /** Of the one that was rejected. */
  readonly refundedHash: string
  readonly batchId: string
}

export const payee = '0x00000000000000000000000000000000000a0001'

/** A node with a key, whose receipts it signs. */
async function node({ database, ask }: TestGateway, customerId: string) {
  const key = signingKey(new Uint8Array(32).fill(5))
  const publicKey = Buffer.from(fromBase64url(key.publicKey, 32) ?? [])
  for (const [at, id] of ['node_a', 'node_b'].entries()) {
    await database.sql`insert into nodes (node_id, customer_id, name, kind, identity_key, payout_address, visibility,
        privacy_class, node_class)
      values (${id}, ${customerId}, ${id}, 'agent', ${at === 0 ? publicKey : null}, ${payee}, 'public', 'public', 'gpu')`
  }
  await database.sql`insert into nodes (node_id, customer_id, name, kind, url, visibility, privacy_class, node_class)
    values ('node_plain', ${customerId}, 'plain', 'runtime', 'http://127.0.0.1:9', 'private', 'private', 'gpu')`
  await ask('PATCH', '/v1/admin/nodes/node_plain', {
    as: 'admin',
    json: { payout_address: payee, reason: 'paid there' },
  })
  return key
}

async function customer(gateway: TestGateway, wei: string): Promise<string> {
  const made = await json(
    await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'Ada' } }),
  )
  const id = String(made.customer_id)
  const body = { amount_wei: wei, reason: 'paid by card' }
  await gateway.ask('POST', `/v1/admin/customers/${id}/credits`, { as: 'admin', json: body })
  return id
}

/** `settled`: the batch stands on a chain, too. Credits, an admin debit, six paid chats that a node signed, a batch of the first three, a refund of the last; all of it in the log. */
export async function writtenBooks(
  gateway: TestGateway,
  { settled = false }: { readonly settled?: boolean } = {},
): Promise<Books> {
  const [customerId, idleCustomerId] = [await customer(gateway, '100000'), await customer(gateway, '777')]
  const debitedCustomerId = await customer(gateway, '500')
  const debit = { amount_wei: '200', reason: 'paid twice' }
  await gateway.ask('POST', `/v1/admin/customers/${debitedCustomerId}/debits`, { as: 'admin', json: debit })
  const priced = { id: 'm', prompt_token_price_wei: '100' }
  await gateway.ask('PUT', '/v1/admin/models', { as: 'admin', json: priced })
  const issued = { name: 'a key' }
  await gateway.ask('POST', `/v1/admin/customers/${customerId}/keys`, { as: 'admin', json: issued })
  await makeRoleToken(gateway.database.db, ['pepper-of-the-tests-0123456789abcdef'], 'viewer')
  await makeRoleToken(gateway.database.db, ['pepper-of-the-tests-0123456789abcdef'], 'admin')
  for (const name of ['Grace', 'Mallory']) {
    const body = { name, role: 'viewer', reason: 'joins' }
    const { admin_id: id } = await json(await gateway.ask('POST', '/v1/admin/admins', { as: 'admin', json: body }))
    // It stays in the list of those that there were.
    if (name === 'Mallory') await gateway.ask('DELETE', `/v1/admin/admins/${id}`, { as: 'admin' })
  }
  const key = await node(gateway, customerId)
  const { db, sql } = gateway.database
  const ledger = new Ledger({ macs: testMacs, db, sql, log: createLog('silent', () => {}) })
  const hashes: string[] = []
  for (let at = 0; at < 6; at++) {
    const requestId = newId('req')
    const text = receiptText(
      receiptFacts({
        issuer: 'node',
        requestId,
        runtimeId: 'rt_1',
        promptTokens: 10,
        completionTokens: 7 + at,
        issuedAt: '2026-11-20T16:00:00.000Z',
      }),
    )
    const hash = textHash(text)
    const reservation = await ledger.reserve({ id: requestId, customerId, amountWei: 2_000n })
    await ledger.settle(reservation, {
      actualWei: 1_000n,
      receipt: {
        hash,
        text,
        customerId,
        signature: key.sign(receiptMessage(hash, 'svc-receipt-v3')),
        status: at === 5 ? 'held' : 'accepted',
      },
      nodeId: 'node_a',
      ownerId: null,
      kind: 'hosted_chat',
      feeBps: 1_000,
      prices: { promptTokenWei: 100n, completionTokenWei: 0n },
    })
    hashes.push(hash)
    // Those behind it stay pending.
    if (at === 2) await gateway.ask('POST', '/v1/admin/payout-batches', { as: 'admin', json: {} })
  }
  const refundedHash = hashes.pop() ?? ''
  await gateway.ask('POST', `/v1/admin/receipts/${refundedHash}/reject`, { as: 'admin', json: { reason: 'too much' } })
  const [batch] = await gateway.database.sql<{ id: string }[]>`select batch_id as id from payout_batches`
  if (settled) {
    await sql`update payout_batches set status = 'completed', submitted_tx_hash = ${`0x${'7a'.repeat(32)}`},
      settlement_block_number = '41', settlement_block_hash = ${`0x${'7b'.repeat(32)}`}`
    await sql`update payouts set settlement_status = 'finalized' where batch_id is not null`
    await sql`update receipt_rows set status = 'finalized' where status = 'batched'`
  }
  await gateway.gateway.sequencer.catchUp({ heads: true })
  for (const table of tables) await gateway.database.sql.unsafe(`create table kept_${table} as table ${table}`)
  return { customerId, idleCustomerId, debitedCustomerId, hashes, refundedHash, batchId: batch?.id ?? '' }
}

/** As whoever owns the database: no trigger and no foreign key stops it. */
export async function tamper({ database }: TestGateway, statements: readonly string[]): Promise<number> {
  return (await database.sql.begin(async (sql) => {
    await sql.unsafe("set local session_replication_role = 'replica'")
    let changed = 0
    for (const statement of statements) changed += (await sql.unsafe(statement)).count
    return changed
  })) as number
}

export async function undo(gateway: TestGateway): Promise<void> {
  await tamper(
    gateway,
    tables.flatMap((table) => [
      `delete from ${table}`,
      `insert into ${table} ${identity.has(table) ? 'overriding system value' : ''} select * from kept_${table}`,
    ]),
  )
}
