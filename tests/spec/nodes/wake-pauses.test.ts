import { expect, test } from 'bun:test'
import { startTestGateway, type TestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { sleepingComputer } from '../../support/nodes/sleeping-computer.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const place = (more = '') => `/v1/admin/nodes/${nodeId}${more}`
/** As good as certain that both processes were asked. */
const looks = 16

interface Shown {
  readonly state: string
  readonly state_says: string | null
}
async function shown({ url, tokens }: TestGateway): Promise<Shown> {
  const init = { keepalive: false, headers: { 'x-svc-admin-token': tokens.admin } }
  return (await (await fetch(url + place(), init)).json()) as Shown
}
const everywhere = (at: TestGateway, is: (node: Shown) => boolean) =>
  waitFor('every process to know it', async () => {
    for (let look = 0; look < looks; look++) if (!is(await shown(at))) return false
    return true
  })

const deaf = await fixture(sleepingComputer({ mac: '3c:7c:3f:00:00:31', deaf: true, server: { models: ['deaf'] } }))
const env = { SVC_WAKE_ADDRESSES: deaf.card.address, SVC_WAKE_WAIT_MS: '3000' }
/** Two processes behind one address: each connection comes to one of them. */
const gateway = await fixture(startTestGateway({ env: { ...env, SVC_PROCESSES: '2' } }))
/** Another gateway of the same database. */
const beside = await fixture(startTestGateway({ beside: gateway, env }))
const customer = await gateway.customer()
const nodeId = await gateway.node(deaf.url, { customerId: customer.customerId })
await gateway.admin('PATCH', place(), { mac: deaf.card.mac })
await gateway.admin('POST', place('/sleep'), {})
deaf.fallAsleep()
for (const each of [gateway, beside]) await everywhere(each, ({ state }) => state === 'asleep')

const inVain = ({ state_says: says }: Shown) => says?.startsWith('magic packets did not wake it once: ') === true
const woken = ({ state_says: says }: Shown) => says === 'a request wakes it'
const ask = async (at: TestGateway) => {
  const body = { model: 'deaf', messages: [{ role: 'user', content: 'Hello' }] }
  const answer = await at.chat(customer.key, body, { keepalive: false })
  return [answer.status, ((await answer.json()) as { error: { code: string } }).error.code]
}

test('§39: a wait in vain at one process leaves the node in peace at the others, and at other gateways', async () => {
  expect(await ask(gateway)).toEqual([503, 'node_asleep'])
  for (const each of [gateway, beside]) await everywhere(each, inVain)
  const before = deaf.card.packets
  expect(before).toBeGreaterThan(0)
  for (let look = 0; look < looks; look++) expect(await ask(gateway)).toEqual([503, 'node_asleep'])
  expect(await ask(beside)).toEqual([503, 'node_asleep'])
  expect(deaf.card.packets).toBe(before)
})

test('§39: a gateway that starts later knows it, too, and what ends the pause at one ends it at all', async () => {
  await using later = await scoped(
    startTestGateway({ beside: gateway, env: { SVC_WAKE_ADDRESSES: deaf.card.address } }),
  )
  await everywhere(later, inVain)
  await beside.admin('PATCH', place(), { mac: '3c:7c:3f:00:00:32' })
  for (const each of [gateway, beside, later]) await everywhere(each, woken)
  await beside.admin('PATCH', place(), { mac: deaf.card.mac })
  expect(await ask(beside)).toEqual([503, 'node_asleep'])
  for (const each of [gateway, later]) await everywhere(each, inVain)
  // It waits for two minutes: the pause does not come back meanwhile.
  await later.admin('POST', place('/wake'), {})
  for (const each of [gateway, beside, later]) await everywhere(each, woken)
})

test('§39: after a computer was up, its next sleep begins without a pause', async () => {
  expect(await ask(beside)).toEqual([503, 'node_asleep'])
  await everywhere(gateway, inVain)
  deaf.wake()
  // Otherwise a computer that sleeps is asked once a minute.
  await gateway.admin('POST', place('/wake'), {})
  for (const each of [gateway, beside]) await everywhere(each, ({ state }) => state === 'ready')
  await gateway.admin('POST', place('/sleep'), {})
  deaf.fallAsleep()
  for (const each of [gateway, beside]) await everywhere(each, (node) => node.state === 'asleep' && woken(node))
})
