import { afterAll, beforeAll, expect, test } from 'bun:test'
import { claimJobs, endJob } from '../../src/db/queries/jobs/jobs.ts'
import type { NodeId } from '../../src/ids.ts'
import { type TestDatabase, testDatabase } from '../support/run/postgres.ts'

const queuedMax = 5_000
const finishedMax = 100_000
const customersMax = 60
const nodeIds = Array.from({ length: 6 }, (_, i) => `node_${i}` as NodeId)
const perNode = 4

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())

/** Rows of 60 customers over 6 nodes. */
async function insert(prefix: string, count: number, finished: boolean): Promise<void> {
  await database.sql.unsafe(`
    insert into private_jobs (command_id, job_id, sealed_job_id, customer_id, node_id, model_id, upstream_model_id,
      runtime_id, fingerprint, encrypted_request, status, attempt, request_id, due_at, deadline_at, completed_at)
    select 'cmd_${prefix}' || i, '${prefix}' || i, '', 'cus_' || i % ${customersMax}, 'node_' || i % ${nodeIds.length},
      'm', 'm', 'rt', sha256(('${prefix}' || i)::bytea), jsonb_build_object('key_id', 'k', 'ciphertext', repeat('A', 512)),
      '${finished ? 'completed' : 'queued'}', 0, 'req', now() - interval '1 minute', now() + interval '1 hour',
      ${finished ? 'now()' : 'null'}
    from generate_series(1, ${count}) as i`)
  await database.sql.unsafe('analyze private_jobs')
}

/** Claims and ends all that is queued, as one gateway does; ms per claim. */
async function drain(): Promise<{ readonly claims: number; readonly jobs: number; readonly claimMs: number }> {
  const room = nodeIds.map((nodeId) => ({ nodeId, free: perNode, takesNew: true }))
  let claims = 0
  let jobs = 0
  let spentMs = 0
  const seen = new Set<string>()
  for (;;) {
    const now = new Date()
    const began = performance.now()
    const items = await claimJobs(database.db, { room, limit: 256, now, leaseUntil: new Date(now.getTime() + 60_000) })
    spentMs += performance.now() - began
    if (items.length === 0) break
    claims++
    jobs += items.length
    for (const { commandId, leaseId } of items) {
      expect(seen.has(commandId)).toBe(false)
      seen.add(commandId)
      await endJob(database.db, commandId, leaseId, { status: 'failed', completedAt: now, errorCode: 'x' })
    }
  }
  return { claims, jobs, claimMs: spentMs / claims }
}

const plan = async () => {
  const rows = await database.sql.unsafe(`
    explain (format json) select j.command_id from private_jobs j where j.node_id = 'node_1' and j.completed_at is null
      and j.due_at <= now() and j.deadline_at > now() order by j.due_at limit 4 for update skip locked`)
  return JSON.stringify(rows)
}

test(`§26: a claim is as quick over ${finishedMax} finished rows as over none`, async () => {
  await insert('a', queuedMax, false)
  const before = await drain()
  await insert('f', finishedMax, true)
  await insert('b', queuedMax, false)
  expect(await plan()).toContain('private_jobs_due')
  const after = await drain()
  console.table([
    {
      finished: 0,
      ...before,
      'jobs claimed per s of claiming': Math.round((1_000 * before.jobs) / before.claims / before.claimMs),
    },
    {
      finished: finishedMax,
      ...after,
      'jobs claimed per s of claiming': Math.round((1_000 * after.jobs) / after.claims / after.claimMs),
    },
  ])
  expect([before.jobs, after.jobs]).toEqual([queuedMax, queuedMax])
  expect(after.claimMs / before.claimMs).toBeLessThan(2)
})
