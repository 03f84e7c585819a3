import { expect, test } from 'bun:test'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { createBody, jobCustomer, jobNode, nodeState, postJob, readJob } from '../support/pools/job-pool.ts'
import { waitUntil } from '../support/run/wait-until.ts'

test('§1: a gateway that stops lets its jobs go; the next one attends the same attempt at once', async () => {
  const first = await startTestGateway({ SVC_POLL_INTERVAL_MS: '100' })
  const customer = await jobCustomer(first)
  const node = await jobNode(first, customer)
  node.turn({ kind: 'hold' })
  const { job_id } = await json(await postJob(first, customer, createBody(node)))
  const jobId = String(job_id)
  await waitUntil('it runs', async () => (await readJob(first, customer, jobId)).status === 'running')
  const second = await startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }, undefined, { beside: first })
  await waitUntil('the second knows the node', () => nodeState(second, node.nodeId, 'ready'))
  await first.app.server?.stop(true)
  await first.gateway.stop()
  node.release()
  await waitUntil('it is completed', async () => (await readJob(second, customer, jobId)).status === 'completed')
  expect(node.submits.map(({ attempt }) => attempt)).toEqual([1])
  expect(node.prompts.length).toBe(1)
  await second.stop()
  await first.stop()
  await node.stop()
})
