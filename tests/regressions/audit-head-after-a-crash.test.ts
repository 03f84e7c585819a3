import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chainStart, headProof } from '../../src/actors/audit/audit-chain.ts'
import { OwnHead } from '../../src/actors/audit/own-head.ts'
import { type ChainHead, lockHead, saveHead, type TransactionId } from '../../src/db/queries/audit/audit-chains.ts'
import { type TestDatabase, testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: after PostgreSQL ended at once (SIGQUIT) a gateway refused all actions with `audit_head_lost` until it was started anew.
 * Cause: an event was on its way when the server fell. Its transaction was lost before it reached the disk, and the server gave its number to
 * another one, which was committed.
 * Fix: where no answer to the commit came and the server was started anew since, the event is known to be lost.
 */
let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())

const key = 'audit-key'
const writerId = 'gw_test'
function headAt(seq: number): ChainHead {
  const head = { writerId, ordinal: 1, keyId: 'k', seq, mac: chainStart, lastAt: new Date(1_795_000_000_000 + seq) }
  return { ...head, proof: headProof(key, head) }
}

test('§16: an event that a crash of PostgreSQL has lost is no deleted one', async () => {
  const own = new OwnHead(key)
  const { db } = database
  const by = await db.transaction((tx) => saveHead(tx, headAt(1)))
  own.wrote(headAt(1), by)
  const isStill = () => db.transaction(async (tx) => own.isStill(tx, await lockHead(tx, writerId)))
  expect(await isStill()).toBe(true)

  // The number belongs to what was committed, the event is not there, and the server is the same.
  own.wrote(headAt(2), by)
  expect(await isStill()).toBe(false)
  own.unanswered(by)
  expect(await isStill()).toBe(false)

  const before: TransactionId = { ...by, server: '1' }
  own.wrote(headAt(2), before)
  expect(await isStill()).toBe(false)
  own.unanswered(by)
  expect(await isStill()).toBe(false)
  own.unanswered(before)
  expect(await isStill()).toBe(true)

  // What it has seen is still missed.
  await database.sql`delete from audit_chains`
  expect(await isStill()).toBe(false)
})
