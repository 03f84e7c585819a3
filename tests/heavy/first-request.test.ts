import { expect, test } from 'bun:test'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { counted } from '../support/gateways/counted-database.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

// Makes the accounts, so that the process that is looked at has seen none of them.
const rarely = { SVC_POLL_INTERVAL_MS: '60000' }
const beside = await fixture(startTestGateway({ env: rarely }))
const node = await fixture(startFakeNode({ models: ['m'] }))
const { customerId, key } = await beside.customer()
await beside.node(node.url, { customerId })
const way = await fixture(counted(beside.database.url))

test('§1: the first request of a ready process opens a connection to its node alone, and has one statement prepared: the look for its key', async () => {
  await using fresh = await scoped(
    startTestGateway({ beside, env: { ...rarely, DATABASE_URL: way.url, SVC_WARM_UP: 'true' } }),
  )
  await waitUntil('it is ready', async () => (await fetch(`${fresh.url}/readyz`)).status === 200)
  /** Its connections to the database, and how often a statement about keys was prepared. */
  const seen = () => ({
    database: way.connections,
    keys: way.prepared.filter((text) => text.includes('from "gateway_keys"')).length,
  })
  const before = seen()
  const polled = node.stats().connections
  const ask = async () => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
    const response = await fresh.chat(key, body)
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  }
  await ask()
  expect(seen()).toEqual({ ...before, keys: before.keys + 1 })
  await ask()
  expect(seen()).toEqual({ ...before, keys: before.keys + 1 })
  // Accounts share none to a node, nor with the polls.
  expect(node.stats().connections).toBeLessThanOrEqual(polled + 1)
})
