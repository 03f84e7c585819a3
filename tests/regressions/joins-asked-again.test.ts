import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { enrollmentFile } from '../../src/node/membership/enrollment.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { enrollmentToken, startAgent } from '../support/nodes/agents.ts'
import { startJoinRelay } from '../support/nodes/join-relay.ts'
import { fixture } from '../support/run/fixture.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'penstock-join-again-'))
const gateway = await fixture(startTestGateway())

afterAll(() => rmSync(dataDir, { recursive: true, force: true }))

test('§39: a computer that the gateway knows already asks once, and says why it may not join', async () => {
  const customer = await gateway.customer()
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [], dataDir })
  await agent.node.stop()
  rmSync(join(dataDir, enrollmentFile))
  const asked: string[] = []
  const relay = startJoinRelay(gateway.url, async ({ method, url }) => {
    asked.push(`${method} ${new URL(url).pathname}`)
    return null
  })
  const talk = { show: () => {}, agrees: async () => true }
  const words = { name: 'attic', talk, signal: new AbortController().signal, askEveryMs: 20 }
  const joining = startAgent({ gatewayUrl: relay.url, runtimes: [], dataDir, words })
  await expect(joining).rejects.toThrow('enrolled before')
  expect(asked).toEqual(['POST /v1/node-agent/join'])
  await relay.stop()
})
