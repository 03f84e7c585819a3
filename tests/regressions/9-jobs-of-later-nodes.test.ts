import { expect, test } from 'bun:test'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { jobCustomer, jobNode, jobRequest } from '../support/pools/job-pool.ts'
import { waitLimitMs } from '../support/run/limits.ts'

/**
 * Symptom: with more nodes than a gateway could keep busy at once, jobs of the later ones waited until they expired.
 * Cause: the room of a claim was given out node by node, to nodes without any jobs as well, until none was left.
 * Fix: each node has room of its own; the claim as a whole has the bound, and takes what is due the longest.
 */
test('§10: a job is claimed however many nodes without jobs stand before its own', async () => {
  // One node alone may have as many as the gateway runs at all.
  const gateway = await startTestGateway({ SVC_POLL_INTERVAL_MS: '100', SVC_JOBS_RUNNING_PER_NODE_MAX: '256' })
  const customer = await jobCustomer(gateway)
  const nodes = [await jobNode(gateway, customer), await jobNode(gateway, customer), await jobNode(gateway, customer)]
  try {
    for (const node of nodes) {
      const job = await customer.client.submit(jobRequest(node))
      const outcome = await customer.client.wait(job, { pollMs: 20, signal: AbortSignal.timeout(waitLimitMs) })
      expect(outcome.status).toBe('completed')
    }
  } finally {
    await gateway.stop()
    await Promise.all(nodes.map((node) => node.stop()))
  }
})
