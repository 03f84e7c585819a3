import { expect, test } from 'bun:test'
import { claimJobs, endJob, markRunning, releaseJob } from '../../src/db/queries/jobs/jobs.ts'
import type { CommandId, NodeId } from '../../src/ids.ts'
import { minuteMs } from '../../src/time.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())

const room = [{ nodeId: 'node_a' as NodeId, free: 1, takesNew: true }]

async function insert(name: string): Promise<void> {
  await database.sql`
    insert into private_jobs (command_id, job_id, sealed_job_id, customer_id, node_id, model_id, upstream_model_id,
      runtime_id, fingerprint, encrypted_request, status, attempt, request_id, due_at, deadline_at)
    values (${name}, ${name}, '', 'cus', 'node_a', 'm', 'm', 'rt', ${Buffer.from(name)}, '{}', 'queued', 0, 'req',
      now() - interval '1 minute', now() + interval '1 hour')`
}

/** One gateway takes the job and its lease runs out; another takes it. */
async function twice() {
  const now = new Date()
  const later = new Date(now.getTime() + 2 * minuteMs)
  const lease = async (at: Date) => {
    const [job] = await claimJobs(database.db, {
      room,
      limit: 1,
      now: at,
      leaseUntil: new Date(at.getTime() + minuteMs),
    })
    if (job === undefined) throw new Error('nothing was due')
    return job
  }
  return { lost: await lease(now), held: await lease(later), later }
}

const rowOf = async (name: string) => {
  const [row] =
    await database.sql`select status, lease_id, completed_at, error_code from private_jobs where command_id = ${name}`
  return row
}

test('§26: who has lost its lease ends a job no more, nor moves it; who has it does, once', async () => {
  await insert('cmd_a')
  const { lost, held, later } = await twice()
  expect(held.commandId).toBe('cmd_a' as CommandId)
  expect(held.leaseId).not.toBe(lost.leaseId)
  const before = await rowOf('cmd_a')
  const end = { status: 'failed', completedAt: later, errorCode: 'of_the_first' } as const
  expect(await endJob(database.db, lost.commandId, lost.leaseId, end)).toBeNull()
  expect(await markRunning(database.db, lost.commandId, lost.leaseId)).toBe(false)
  expect(await releaseJob(database.db, lost.commandId, lost.leaseId, later)).toBe(false)
  expect(await rowOf('cmd_a')).toEqual(before)

  const ended = { ...end, errorCode: 'of_the_second' }
  expect(await endJob(database.db, held.commandId, held.leaseId, ended)).not.toBeNull()
  expect(await endJob(database.db, held.commandId, held.leaseId, end)).toBeNull()
  expect(await rowOf('cmd_a')).toMatchObject({ status: 'failed', lease_id: null, error_code: 'of_the_second' })
})
