import { beforeEach, describe, expect, test } from 'bun:test'
import { headers } from '../../../src/brand.ts'
import { newId } from '../../../src/ids.ts'
import { encapsulatedKeyHeader, responseNonceHeader } from '../../../src/protocol/sealed/ehbp.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { enrollmentToken, untilState } from '../../support/nodes/agents.ts'
import { agentRuntime, startScriptedAgent } from '../../support/nodes/scripted-agent.ts'
import { fixture } from '../../support/run/fixture.ts'

const nonce = 'ab'.repeat(32)
const frame = new Uint8Array([0, 0, 0, 17, ...new Uint8Array(17)])

const gateway = await fixture(startTestGateway({ env: { SVC_ENDPOINT_NETWORKS: '127.0.0.0/8' } }))
const customer = await gateway.customer()
const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId, { endpointUrlAllowed: true })
const agent = await fixture(
  startScriptedAgent(gateway.url, token, [agentRuntime(newId('rt'), ['m'], { slots_total: 1 })]),
)
await untilState(gateway, agent.nodeId, 'ready')

beforeEach(() => agent.respond(() => null))

const ask = () =>
  fetch(`${gateway.url}/v1/sealed/nodes/${agent.nodeId}/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${customer.key}`,
      [headers.sealedModel]: 'm',
      [encapsulatedKeyHeader]: crypto.getRandomValues(new Uint8Array(32)).toHex(),
    },
    body: frame,
  })
const sealed = (status: number, more: Record<string, string> = {}) =>
  new Response(status === 204 || status === 304 ? null : frame, {
    status,
    headers: { 'content-type': 'application/json', [responseNonceHeader]: nonce, ...more },
  })

describe('§38: what a node says outside of the seal', () => {
  test('an answer passes as it is', async () => {
    agent.respond(() => sealed(200))
    const answer = await ask()
    expect([answer.status, answer.headers.get(responseNonceHeader)]).toEqual([200, nonce])
    expect(await answer.bytes()).toEqual(frame)
  })

  test.each([201, 204, 302, 304])(
    'with a status that is no answer and no refusal (%d) it has failed',
    async (status) => {
      agent.respond(() => sealed(status, { location: 'http://127.0.0.1:1/' }))
      const answer = await ask()
      expect([answer.status, answer.headers.get('location')]).toEqual([503, null])
      expect(await answer.json()).toMatchObject({ error: { code: 'node_unavailable' } })
    },
  )

  test.each([
    ['7', '7'],
    ['Wed, 21 Oct 2026 07:28:00 GMT', null],
    ['a prompt', null],
    ['123456', null],
  ])('Retry-After passes as a number of seconds alone: %s', async (told, passed) => {
    agent.respond(() => sealed(429, { 'retry-after': told }))
    const answer = await ask()
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, passed])
    await answer.bytes()
  })
})
