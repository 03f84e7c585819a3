import { expect, test } from 'bun:test'
import { adminRoute } from '../../src/actions/registry.ts'
import { AuditLog } from '../../src/actors/audit/audit-log.ts'
import { checkLoggedHeads } from '../../src/actors/log/heads-check.ts'
import { readHeads } from '../../src/db/queries/audit/audit-chains.ts'
import { insertLogEntries } from '../../src/db/queries/log/log.ts'
import { createLog } from '../../src/log.ts'
import { auditHeadHash } from '../../src/protocol/log/entry-facts.ts'
import { testAudit } from '../support/leaks/audit.ts'
import { testDatabase } from '../support/run/postgres.ts'

test('§31: the ends of the audit in the log are compared by a few statements, however many there are', async () => {
  const { db, sql, drop } = await testDatabase()
  try {
    const audit = new AuditLog({
      db,
      log: createLog('silent', () => {}),
      keys: ['key-of-the-tests-0123456789abcdef'],
      policyOf: adminRoute,
    })
    const count = 40
    for (let at = 0; at < count; at++) await audit.note(testAudit, { targetId: `t${at}` })
    const [head] = await readHeads(db)
    const events = await sql<
      { seq: number; mac: Buffer }[]
    >`select seq::int, mac from admin_approval_events order by seq`
    expect([head?.seq, events.length]).toEqual([count, count])
    const { writerId = '', ordinal = 0 } = head ?? {}
    const entries = events.map(({ seq, mac }, entryIndex) => {
      const hash = auditHeadHash({ writerId, ordinal, seq, mac: mac.toString('hex') })
      return { entryIndex, kind: 'audit' as const, hash, subject: `${writerId}:${seq}` }
    })
    await insertLogEntries(db, entries)
    const checked = () =>
      db.transaction(async (tx) => {
        let statements = 0
        const counted = new Proxy(tx, {
          get: (target, name) => {
            if (name === 'execute' || name === 'select') statements++
            return Reflect.get(target, name)
          },
        })
        return { lost: await checkLoggedHeads(counted), few: statements < 10 }
      })
    expect(await checked()).toEqual({ lost: [], few: true })
    await sql`update admin_approval_events set mac = decode(repeat('00', 32), 'hex') where seq = 7`
    expect(await checked()).toEqual({ lost: [writerId], few: true })
    await sql`delete from admin_approval_events where seq = 7`
    expect((await checked()).lost).toEqual([writerId])
    await sql`insert into audit_tombstones (writer_id, seq, mac, run_id, purged_at, key_id, proof)
      values (${writerId}, 8, ${events[7]?.mac ?? null}, 'run', now(), 'key', 'proof')`
    expect((await checked()).lost).toEqual([])
    await sql`delete from log_entries where entry_index > 0`
    await sql`update log_entries set subject = ${`${writerId}:x`}`
    expect((await checked()).lost).toEqual([writerId])
  } finally {
    await drop()
  }
})
