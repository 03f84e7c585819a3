import { describe, expect, test } from 'bun:test'
import { adminRoute } from '../../src/actions/registry.ts'
import { chainStart, headProof } from '../../src/actors/audit/audit-chain.ts'
import { AuditLog } from '../../src/actors/audit/audit-log.ts'
import { OwnHead } from '../../src/actors/audit/own-head.ts'
import { openDatabase } from '../../src/db/client.ts'
import { type ChainHead, lockHead, saveHead, type TransactionId } from '../../src/db/queries/audit/audit-chains.ts'
import { Problem } from '../../src/errors.ts'
import { createLog } from '../../src/log.ts'
import { testAudit } from '../support/leaks/audit.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: after PostgreSQL ended at once (SIGQUIT) a gateway refused all actions with `audit_head_lost` until it was started anew.
 * Cause: an event was on its way when the server fell. Its transaction was lost before it reached the disk, and the server gave its number to
 * another one, which was committed.
 * An event within the transaction of an action had the same fate.
 * Fix: where no answer to the commit came and the server was started anew since, the event is known to be lost.
 */
const database = await fixture(testDatabase())

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

const failureOf = (action: Promise<unknown>) =>
  action.then(
    () => null,
    (error: Error) => (error instanceof Problem ? error.code : error.message),
  )

/**
 * A PostgreSQL whose catalog says what one says after a crash: the number of each transaction belongs to one that was committed, and
 * the server was started at the time that `played.server` has. Commits fail where it says so, as those do whose answer is lost.
 */
const crashing = `
  create schema played;
  create table played.server (started timestamptz not null, commits boolean not null);
  insert into played.server values ('2031-01-01', true);
  create function played.pg_xact_status(xid8) returns text language sql as $$ select 'committed' $$;
  create function played.pg_postmaster_start_time() returns timestamptz language sql as $$ select started from played.server $$;
  create function played.end_without_an_answer() returns trigger language plpgsql as $$ begin
    if not (select commits from played.server) then raise 'the connection is gone'; end if;
    return null;
  end $$;
  create constraint trigger crash after insert on admin_approval_events deferrable initially deferred
    for each row execute function played.end_without_an_answer();`

describe('§16: the event of an action within the transaction of the action', () => {
  async function playing() {
    const played = await testDatabase()
    await played.sql.unsafe(crashing)
    const name = new URL(played.url).pathname.slice(1)
    await played.sql.unsafe(`alter database ${name} set search_path = played, pg_catalog, public`)
    const opened = openDatabase({ url: played.url, connectionsMax: 2 })
    const audit = new AuditLog({ db: opened.db, log: createLog('silent', () => {}), keys: [key], policyOf: adminRoute })
    return {
      sql: played.sql,
      act: () => opened.db.transaction((tx) => audit.record(tx, testAudit, { targetId: 'a' })),
      restart: () => played.sql`update played.server set started = started + interval '1 h'`,
      async [Symbol.asyncDispose]() {
        await opened.close()
        await played.drop()
      },
    }
  }

  test('is known to be lost where its commit got no answer and the server was started anew', async () => {
    await using server = await playing()
    await server.act()
    await server.sql`update played.server set commits = false`
    expect(await failureOf(server.act())).toBe('the connection is gone')
    await server.sql`update played.server set commits = true`
    expect(await failureOf(server.act())).toBe('audit_head_lost')
    await server.restart()
    await server.act()
    expect(await server.sql`select seq::int from audit_chains`).toMatchObject([{ seq: 2 }])
  })

  test('is missed where its commit was answered, whatever was started anew', async () => {
    await using server = await playing()
    await server.act()
    await server.act()
    await server.sql`delete from admin_approval_events where seq = 2`
    await server.sql`update audit_chains set seq = 1`
    await server.restart()
    expect(await failureOf(server.act())).toBe('audit_head_lost')
  })
})
