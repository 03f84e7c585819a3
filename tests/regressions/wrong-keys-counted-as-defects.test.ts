import { expect, test } from 'bun:test'
import { newId } from '../../src/ids.ts'
import { keyMismatchType } from '../../src/protocol/sealed/ehbp.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { metricSum } from '../support/gateways/metric.ts'
import { enrollmentToken, untilState } from '../support/nodes/agents.ts'
import { agentRuntime, startScriptedAgent } from '../support/nodes/scripted-agent.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitFor } from '../support/run/wait-until.ts'

/**
 * Symptom: each sealed request that no key of its node opens (after a rotation, or by anybody who tries) stood in metrics, log and records
 * of requests as 500 `internal_error`, for which operators are woken, while its client got 422. Cause: the relay threw an error of its own
 * that is no refusal, and the exchange wrote it down as a defect before the door did. Fix: it is a refusal with EHBP's status.
 */

const gateway = await fixture(
  startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_METRICS_PUBLIC: 'true' } }),
)
const customer = await gateway.customer()
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
const agent = await fixture(
  startScriptedAgent(gateway.url, token, [agentRuntime(newId('rt'), ['m'], { slots_total: 1 })]),
)
await untilState(gateway, agent.nodeId, 'ready')

test('§38: a key that opens nothing is counted, and written down, as 422', async () => {
  const problem = { type: keyMismatchType, title: 'No key of this node opens the request.', status: 422 }
  agent.respond(() => Response.json(problem, { status: 422 }))
  const refused = await fetch(`${gateway.url}/v1/sealed/nodes/${agent.nodeId}/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${customer.key}`,
      'x-svc-model': 'm',
      'ehbp-encapsulated-key': 'ab'.repeat(32),
    },
    body: new Uint8Array([0, 0, 0, 17, ...new Uint8Array(17)]),
  })
  expect(refused.status).toBe(422)
  const requestId = refused.headers.get('x-request-id')
  // It is counted behind its answer.
  const counted = await waitFor('the count', async () => {
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
    const of = (status: number) =>
      metricSum(
        metrics,
        'svc_http_requests_total',
        `sealed/nodes/:node_id/chat/completions",method="POST",status="${status}"`,
      )
    const counts = [of(422), of(500)]
    return counts.some((count) => count > 0) ? counts : null
  })
  expect(counted).toEqual([1, 0])
  const record = await waitFor('the record', async () => {
    type Listed = { readonly requests: readonly Readonly<Record<string, unknown>>[] }
    const path = `/v1/admin/requests?customer_id=${customer.customerId}`
    return (await gateway.admin<Listed>('GET', path)).requests.find(({ request_id: id }) => id === requestId)
  })
  expect(record).toMatchObject({ status: 422, code: 'invalid_request' })
})
