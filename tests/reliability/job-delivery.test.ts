import { afterEach, expect, test } from 'bun:test'
import type { CommandRecord, JobRead } from '../../src/protocol/wire/inference/job.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { type JobNode, signedReceipt } from '../support/nodes/job-node.ts'
import { createBody, jobCustomer, jobNode, nodeState, postJob, readJob } from '../support/pools/job-pool.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const world = { clock: Date.now(), now: () => world.clock }
const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }, undefined, { world }))
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))

afterEach(() => {
  node.release()
})

async function submit(more: object = {}): Promise<{ readonly jobId: string; readonly commandId: string }> {
  const response = await postJob(gateway, customer, { ...createBody(node), ...more })
  const created = await json(response)
  expect(response.status).toBe(202)
  return { jobId: String(created.job_id), commandId: String(created.command_id) }
}

const command = async (commandId: string): Promise<CommandRecord> =>
  (await (await gateway.ask('GET', `/v1/admin/commands/${commandId}`, { as: 'operator' })).json()) as CommandRecord

async function reaches(jobId: string, status: JobRead['status']): Promise<JobRead> {
  await waitUntil(
    `${jobId} is ${status}`,
    async () => (await readJob(gateway, customer, jobId)).status === status,
    10_000,
  )
  return readJob(gateway, customer, jobId)
}

const forward = (ms: number) => {
  world.clock += ms
  gateway.gateway.jobs.wake()
}
const submitsOf = (commandId: string) => node.submits.filter((submit) => submit.commandId === commandId)

test('§10: a retryable failure takes the next attempt, with a request id of its own, at most three', async () => {
  node.turn({ kind: 'fail', code: 'runtime_error' }, { kind: 'fail', code: 'model_unavailable' })
  const { jobId, commandId } = await submit()
  await waitUntil('the first failed', async () => {
    const { status, attempt } = await command(commandId)
    return status === 'queued' && attempt === 1
  })
  forward(4_999)
  expect((await command(commandId)).attempt).toBe(1)
  forward(1)
  await waitUntil('the second failed', async () => {
    const { status, attempt } = await command(commandId)
    return status === 'queued' && attempt === 2
  })
  forward(30_000)
  await reaches(jobId, 'completed')
  const submits = submitsOf(commandId)
  expect(submits.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
  expect(new Set(submits.map(({ request_id }) => request_id)).size).toBe(3)

  node.turn(...Array.from({ length: 3 }, () => ({ kind: 'fail', code: 'runtime_error' }) as const))
  const second = await submit()
  for (const [made, pause] of [
    [1, 5_000],
    [2, 30_000],
  ] as const) {
    await waitUntil(`attempt ${made} failed`, async () => {
      const { status, attempt } = await command(second.commandId)
      return status === 'queued' && attempt === made
    })
    forward(pause)
  }
  expect((await reaches(second.jobId, 'failed')).error).toEqual({ code: 'runtime_error' })
})

test('§10: an agent that lost the command gets the next attempt; what it refuses at once fails at once', async () => {
  node.turn({ kind: 'hold' })
  const { jobId, commandId } = await submit()
  await reaches(jobId, 'running')
  node.forgetCommands()
  await waitUntil('it was lost', async () => (await command(commandId)).status === 'queued')
  forward(5_000)
  await reaches(jobId, 'completed')
  expect(submitsOf(commandId).map(({ attempt }) => attempt)).toEqual([1, 2])

  node.turn({ kind: 'refuse', status: 409, body: { code: 'envelope_replayed' } })
  const replayed = await submit()
  expect((await reaches(replayed.jobId, 'failed')).error).toEqual({ code: 'envelope_replayed' })
  node.turn({ kind: 'refuse', status: 400, body: { code: 'prompt: the secret question' } })
  const refused = await submit()
  expect((await reaches(refused.jobId, 'failed')).error).toEqual({ code: 'node_refused' })
})

test('§10: a node that does not answer loses nothing: the same attempt goes on when it is back', async () => {
  node.away = true
  const { jobId, commandId } = await submit()
  await waitUntil('it was tried', async () => (await command(commandId)).attempt === 1)
  await waitUntil('it was let go', async () => {
    const [row] = await gateway.database.sql`select lease_id from private_jobs where command_id = ${commandId}`
    return row?.lease_id === null
  })
  node.away = false
  forward(2_000)
  await reaches(jobId, 'completed')
  expect((await command(commandId)).attempt).toBe(1)
})

test('§10: a job for an absent node waits as queued', async () => {
  const owner = await jobCustomer(gateway)
  const absent = await jobNode(gateway, owner)
  await absent.stop()
  await waitUntil('it is stale', () => nodeState(gateway, absent.nodeId, 'stale'))
  const response = await postJob(gateway, owner, createBody(absent))
  const { command_id } = await json(response)
  expect(response.status).toBe(202)
  const other = await submit()
  await reaches(other.jobId, 'completed')
  expect(await command(String(command_id))).toMatchObject({ status: 'queued', attempt: 0 })
})

test('§23: a drained node finishes the jobs that it has and gets no new ones until it is resumed', async () => {
  const ask = async (verb: string) => {
    expect(
      (await gateway.ask('POST', `/v1/admin/nodes/${node.nodeId}/${verb}`, { as: 'admin', json: {} })).status,
    ).toBe(200)
  }
  node.turn({ kind: 'hold' })
  const running = await submit()
  await reaches(running.jobId, 'running')
  await ask('drain')
  await waitUntil('the drain is over', () => nodeState(gateway, node.nodeId, 'live'))
  const waiting = await submit()
  // Taken over from a gateway that died: not new to the node.
  await gateway.database.sql`update private_jobs set lease_id = null, due_at = now() - interval '1 day'
    where command_id = ${running.commandId}`
  node.release()
  gateway.gateway.jobs.wake()
  await reaches(running.jobId, 'completed')
  expect((await readJob(gateway, customer, waiting.jobId)).status).toBe('queued')
  expect(submitsOf(waiting.commandId)).toEqual([])
  await ask('resume')
  await reaches(waiting.jobId, 'completed')
})

test('§10: what nobody finished in time expires, once, and its node is told', async () => {
  node.turn({ kind: 'hold' })
  const { jobId, commandId } = await submit()
  await reaches(jobId, 'running')
  forward(3_600_000)
  const read = await reaches(jobId, 'expired')
  expect(read).not.toHaveProperty('encrypted_response')
  expect(read.completed_at).toBe(new Date(world.clock).toISOString())
  await waitUntil('the node was told', () => node.cancelled.includes(commandId))
  const late = node.prompts.length
  node.release()
  await waitUntil('it ran for nothing', () => node.prompts.length > late)
  expect((await readJob(gateway, customer, jobId)).status).toBe('expired')
})

test('§23: an operator cancels: at once, once, and the node is told', async () => {
  node.turn({ kind: 'hold' })
  const { jobId, commandId } = await submit()
  await reaches(jobId, 'running')
  const cancel = () =>
    gateway.ask('POST', `/v1/admin/commands/${commandId}/cancel`, { as: 'operator', json: { reason: 'test' } })
  const first = await cancel()
  expect([first.status, (await json(first)).status]).toEqual([200, 'cancelled'])
  expect((await readJob(gateway, customer, jobId)).status).toBe('cancelled')
  await waitUntil('the node was told', () => node.cancelled.includes(commandId))
  await waitUntil('nothing attends it', () => gateway.gateway.jobs.running() === 0)
  const second = await cancel()
  expect([second.status, (await json(second)).code]).toEqual([409, 'invalid_state'])
  const unknown = await gateway.ask('POST', '/v1/admin/commands/cmd_none/cancel', { as: 'operator' })
  expect([unknown.status, (await json(unknown)).code]).toEqual([404, 'command_not_found'])
})

test('§22: nothing unsigned is believed: a result that is not the node’s, or not of this job, fails the job', async () => {
  const lies = [
    // Another's signature.
    (state: Lie) => ({ ...state, receipt: { ...state.receipt, signature_ed25519: 'A'.repeat(86) } }),
    // More tokens than were signed.
    (state: Lie) => ({
      ...state,
      receipt: { ...state.receipt, receipt: { ...state.receipt.receipt, completion_tokens: 4_000 } },
    }),
    // Of another job, signed by the node.
    (state: Lie) => ({ ...state, receipt: resigned(state, { jobId: 'job_other' }) }),
    // An answer to another envelope.
    (state: Lie) => ({
      ...state,
      encrypted_response: { ...state.encrypted_response, key_id: 'AAAAAAAAAAAAAAAAAAAAAA' },
    }),
  ]
  for (const lie of lies) {
    node.turn({ kind: 'lie', with: lie })
    const { jobId } = await submit()
    const read = await reaches(jobId, 'failed')
    expect(read.error).toEqual({ code: 'result_invalid' })
    const receipts = await gateway.database.sql`select 1 from receipts where job_id = ${jobId}`
    expect(receipts.length).toBe(0)
  }
})

test('§5: usage that cannot be true for texts of these lengths holds the receipt', async () => {
  node.turn({ kind: 'lie', with: (state) => ({ ...state, receipt: resigned(state, { completionTokens: 1_000_000 }) }) })
  const { jobId } = await submit()
  await reaches(jobId, 'completed')
  const [receipt] = await gateway.database.sql`select status from receipts where job_id = ${jobId}`
  expect(receipt?.status).toBe('held')
})

type Lie = Parameters<Extract<Parameters<JobNode['turn']>[0], { kind: 'lie' }>['with']>[0]

function resigned({ receipt: { receipt: wire } }: Lie, more: object) {
  return signedReceipt(node.identity, {
    issuer: 'node',
    requestId: wire.request_id,
    jobId: wire.job_id,
    kind: 'private_job',
    nodeId: wire.node_id,
    nodeClass: wire.node_class,
    runtimeId: wire.runtime_id,
    runtimeKind: wire.runtime_kind,
    modelId: wire.model_id,
    promptTokens: wire.prompt_tokens,
    completionTokens: wire.completion_tokens,
    startedAt: wire.started_at,
    completedAt: wire.completed_at,
    ...more,
  })
}

test('§10: a dead gateway’s job is taken over under the same attempt; its own late word is dropped', async () => {
  node.turn({ kind: 'hold' })
  const { jobId, commandId } = await submit()
  await reaches(jobId, 'running')
  // As if another gateway had claimed it after this one's lease had run out.
  await gateway.database.sql`update private_jobs set lease_id = 'of-another' where command_id = ${commandId}`
  node.release()
  await waitUntil('the late word was said', () => gateway.gateway.jobs.running() === 0)
  expect((await readJob(gateway, customer, jobId)).status).toBe('running')
  forward(60_000)
  await reaches(jobId, 'completed')
  expect(submitsOf(commandId).length).toBe(1)
  const receipts = await gateway.database.sql`select 1 from receipts where job_id = ${jobId}`
  expect(receipts.length).toBe(1)
})

test('§10: 30 days after its end a job is gone, with all its ciphertexts', async () => {
  const { jobId } = await submit()
  await reaches(jobId, 'completed')
  world.clock += 30 * 86_400_000 + 1_000
  await waitUntil('it is deleted', async () => {
    const rows = await gateway.database.sql`select 1 from private_jobs where job_id = ${jobId}`
    return rows.length === 0
  })
  await expect(readJob(gateway, customer, jobId)).rejects.toThrow('404')
})

test('§11: a short retention takes the job, not the event that is still to be delivered', async () => {
  const { jobId, commandId } = await submit({ webhook_url: 'https://hooks.example.invalid/in' })
  const { sql } = gateway.database
  const webhook = async () =>
    (await sql`select status, due_at from webhook_deliveries where command_id = ${commandId}`)[0]
  await reaches(jobId, 'completed')
  await waitUntil('an attempt has failed', async () => (await webhook())?.status === 'retry_scheduled')
  // Beyond the job's time, and before its next attempt.
  await sql`update webhook_deliveries set due_at = ${new Date(world.clock + 60 * 86_400_000).toISOString()}
    where command_id = ${commandId}`
  const gone = async () => (await sql`select 1 from private_jobs where job_id = ${jobId}`).length === 0
  world.clock += 30 * 86_400_000 + 1_000
  await waitUntil('the job is deleted', gone)
  expect((await webhook())?.status).toBe('retry_scheduled')
  await sql`update webhook_deliveries set status = 'failed', due_at = null where command_id = ${commandId}`
  world.clock += 61_000
  await waitUntil('its event is deleted', async () => (await webhook()) === undefined)
})

test('§26: two gateways share the work; no job is run twice', async () => {
  await using other = await scoped(
    startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }, undefined, { beside: gateway, world }),
  )
  const sharer = await jobCustomer(gateway)
  const shared = await jobNode(gateway, sharer)
  await waitUntil('the other knows the node', () => nodeState(other, shared.nodeId, 'ready'))
  // More than one gateway has running on a node at once.
  shared.turn(...Array.from({ length: 8 }, () => ({ kind: 'hold' as const })))
  const bodies = Array.from({ length: 40 }, () => createBody(shared))
  const made = await Promise.all(
    bodies.map(async (body, i) => json(await postJob(i % 2 === 0 ? gateway : other, sharer, body))),
  )
  await waitUntil('both have all that they take', () =>
    [gateway, other].every(({ gateway: { jobs } }) => jobs.running() === 4),
  )
  expect(shared.submits.length).toBe(8)
  shared.release()
  for (const { job_id } of made) {
    await waitUntil(
      'it is completed',
      async () => (await readJob(other, sharer, String(job_id))).status === 'completed',
      10_000,
    )
  }
  expect(shared.prompts.length).toBe(40)
  expect(new Set(shared.submits.map(({ commandId }) => commandId)).size).toBe(40)
  const receipts = await gateway.database.sql`select 1 from receipts where customer_id = ${sharer.customerId}`
  expect(receipts.length).toBe(40)
  await shared.stop()
})

test('§10: an ephemeral key is good once per node, for 30 days', async () => {
  const body = createBody(node)
  const first = await json(await postJob(gateway, customer, body))
  await reaches(String(first.job_id), 'completed')
  const { aad_hash: _, ...envelope } = body.encrypted_request
  const again = async (job_id: string) => {
    const response = await postJob(gateway, customer, { ...body, job_id, encrypted_request: envelope })
    return [response.status, (await json(response)).code]
  }
  expect(await again('at-once')).toEqual([409, 'envelope_replayed'])
  const { sql } = gateway.database
  const keys = async () => (await sql`select 1 from envelope_replays`).length
  const daysAgo = (days: number) => new Date(world.clock - days * 86_400_000).toISOString()
  await sql`update envelope_replays set created_at = ${daysAgo(29.9)}`
  // What a sweep of this day takes has gone when a key that is too old has.
  await sql`insert into envelope_replays (node_id, public_key_hash, command_id, created_at)
    values (${node.nodeId}, '\\x01', 'cmd_old', ${daysAgo(40)})`
  const old = async () => (await sql`select 1 from envelope_replays where public_key_hash = '\\x01'`).length
  world.clock += 61_000
  await waitUntil('a sweep', async () => (await old()) === 0)
  expect(await again('within-the-month')).toEqual([409, 'envelope_replayed'])
  world.clock += 3 * 3_600_000
  await waitUntil('it is forgotten', async () => (await keys()) === 0)
  expect((await again('after-it'))[0]).toBe(202)
})
