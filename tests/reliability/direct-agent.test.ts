import { expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { enrollmentToken, nodeOf, startAgent, untilState } from '../support/nodes/agents.ts'
import { scoped } from '../support/run/fixture.ts'

test('§22: an agent with an endpoint_url is ready with the first poll, which comes while it still enrols', async () => {
  // So seldom that a second poll would come too late.
  await using gateway = await scoped(
    startTestGateway({
      env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8', SVC_POLL_INTERVAL_MS: '60000' },
    }),
  )
  await using server = await scoped(startFakeNode({ models: ['m-1'] }))
  const customer = await gateway.customer()
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
  const port = freePort()
  await using agent = await scoped(
    startAgent({
      gatewayUrl: gateway.url,
      token,
      port,
      endpointUrl: `http://127.0.0.1:${port}`,
      runtimes: [server.url],
    }),
  )
  await untilState(gateway, agent.nodeId, 'ready')
  expect(await nodeOf(gateway, agent.nodeId)).toMatchObject({ transport: 'direct', last_error: null })
  const answer = await gateway.chat(customer.key, { model: 'm-1', messages: [{ role: 'user', content: 'x' }] })
  expect(answer.status).toBe(200)
})
