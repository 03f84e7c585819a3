import { expect, test } from 'bun:test'
import { sealedFetch } from '../../src/client/sealed/sealed-fetch.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { fresh, startProcesses } from '../support/gateways/processes.ts'
import { enrollmentToken, startAgent, untilState } from '../support/nodes/agents.ts'
import { patientTimes } from '../support/pools/sealed-pool.ts'
import { waitUntil } from '../support/run/wait-until.ts'

test('§38: sealed streams over two processes of a gateway, of which one has the tunnel', async () => {
  const { gateway } = await startProcesses()
  const server = startFakeNode({ models: ['m'], answer: { chunks: 3 } })
  const customer = await gateway.customer()
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [server.url], runtimeTimes: patientTimes })
  try {
    await untilState(gateway, agent.nodeId, 'ready')
    // On connections of their own: the kernel chooses the process.
    const send = (url: string, init: RequestInit) => fetch(url, { ...init, ...fresh })
    const seal = sealedFetch({ gateway: gateway.url, trust: [agent.node.fingerprint], fetch: send })
    const streams = () =>
      Promise.all(
        Array.from({ length: 12 }, () =>
          seal(`${gateway.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${customer.key}` },
            body: JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hello' }] }),
          }).then((response) => response.text(), String),
        ),
      )
    await waitUntil('each process knows the node', async () =>
      (await streams()).every((text) => text.includes('[DONE]')),
    )
    for (const text of await streams()) expect(text).toContain('data: [DONE]')
  } finally {
    await agent.remove()
    server.stop()
    await gateway.stop()
  }
})
