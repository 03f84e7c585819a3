import { expect } from 'bun:test'
import type { Charge } from '../../../src/actors/money/charge.ts'
import type { Database } from '../../../src/db/client.ts'
import { type Books, readBooks } from '../../../src/db/queries/money/ledger-proof.ts'
import { newId } from '../../../src/ids.ts'
import { brokenRules } from '../../../src/machines/rules/books.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import type { TestDatabase } from '../run/postgres.ts'
import { receiptFacts } from './receipt-facts.ts'

/** Ends every test that moves money. */
export async function expectBooksBalance(db: Database): Promise<Books> {
  const books = await readBooks(db)
  expect(brokenRules(books)).toEqual([])
  return books
}

/** A customer with so much on it, written as a credit. */
export async function fundedCustomer({ sql }: Pick<TestDatabase, 'sql'>, wei: bigint): Promise<string> {
  const id = newId('cus')
  await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed, balance_wei)
    values (${id}, 'funded', ${Buffer.from(id)}, ${Buffer.from('s')}, ${wei.toString()})`
  if (wei > 0n) {
    await sql`insert into ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei)
      values (${newId('led')}, ${id}, 'admin_credit', ${wei.toString()}, ${wei.toString()}, 0)`
  }
  return id
}

export function chargeFor(customerId: string, actualWei: bigint, more: Partial<Charge> = {}): Charge {
  const requestId = newId('req')
  const facts: Receipt = receiptFacts({ requestId, nodeId: more.nodeId ?? 'node_1', runtimeId: 'rt_1' })
  const text = receiptText(facts)
  const receipt = { hash: textHash(text), text, customerId, facts }
  return { actualWei, receipt, nodeId: 'node_1', ownerId: null, kind: 'hosted_chat', feeBps: 1_000, ...more }
}
