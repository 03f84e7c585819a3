import { expect, test } from 'bun:test'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type SleepingComputer, sleepingComputer } from '../support/nodes/sleeping-computer.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'

const ids = new Map<SleepingComputer, string>()

async function asleep(each: SleepingComputer): Promise<void> {
  const place = `/v1/admin/nodes/${ids.get(each)}`
  await gateway.admin('POST', `${place}/sleep`, {})
  each.fallAsleep()
  await waitFor('the sleep', async () => (await gateway.admin<{ state: string }>('GET', place)).state === 'asleep')
}

const left = await fixture(sleepingComputer({ mac: '3c:7c:3f:00:02:01', server: { models: ['left'] } }))
const other = await fixture(sleepingComputer({ mac: '3c:7c:3f:00:02:02', server: { models: ['other'] } }))
const gateway = await fixture(
  startTestGateway({
    env: {
      SVC_WAKE_ADDRESSES: [left, other].map(({ card }) => card.address).join(','),
      // Nobody asks a node again within a test.
      SVC_POLL_INTERVAL_MS: '60000',
    },
  }),
)
const customer = await gateway.customer()
for (const each of [left, other]) {
  const id = await gateway.node(each.url, { customerId: customer.customerId })
  ids.set(each, id)
  await gateway.admin('PATCH', `/v1/admin/nodes/${id}`, { mac: each.card.mac })
}

const messages = [{ role: 'user', content: 'Hello' }]
const waiting = async () => {
  const metrics = await fetch(`${gateway.url}/metrics`, { headers: { 'x-svc-admin-token': gateway.tokens.viewer } })
  return Number(/^svc_requests_queued (\d+)$/m.exec(await metrics.text())?.[1])
}

test('§39: a node that falls asleep before it was asked twice is woken for the models that it had ready', async () => {
  await asleep(other)
  expect((await gateway.chat(customer.key, { model: 'other', messages })).status).toBe(200)
  expect(other.card.packets).toBeGreaterThan(0)
})

test('§39: a client that leaves before the first packet has gone out wakes nothing', async () => {
  const { sql } = gateway.database
  const heard = other.card.packets
  await asleep(left)
  const nodeId = ids.get(left) ?? ''
  const leaving = new AbortController()
  // Another gateway is about to say that it sends the next packet, and then does not.
  const undone = sql.begin(async (tx) => {
    await tx`insert into node_wakes (node_id, packet_at) values (${nodeId}, now())`
    const asking = gateway.chat(customer.key, { model: 'left', messages }, { signal: leaving.signal }).catch(() => null)
    await waitFor('the packet that waits', async () => (await lockWaits(sql)) > 0)
    leaving.abort()
    await asking
    await waitFor('the end of the request', async () => (await waiting()) === 0)
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  await waitFor('the turn to send', async () => {
    const rows = await sql`select 1 from node_wakes where node_id = ${nodeId}`
    return rows.length === 1
  })
  await asleep(other)
  await gateway.admin('POST', `/v1/admin/nodes/${ids.get(other)}/wake`, {})
  await waitFor('a packet for another', () => other.card.packets > heard)
  expect(left.card.packets).toBe(0)
})
