import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { rules } from '../../../src/machines/alerts/rules.ts'
import { AlertList } from '../../../src/protocol/wire/alerts/alert-list.ts'
import { minuteMs, secondMs } from '../../../src/time.ts'
import { commandLine } from '../../cli/command-line.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const clock = new VirtualClock()

const gateway = await fixture(startTestGateway({ alertClock: clock }))
const customer = await gateway.customer()
const node = await fixture(startFakeNode({ models: ['m'] }))
const nodeId = await gateway.node(node.url, { customerId: customer.customerId })
const cli = await fixture(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.viewer }))

const ask = () => gateway.chat(customer.key, { model: 'm', messages: [{ role: 'user', content: 'hi' }] })
const list = () => gateway.admin<AlertList>('GET', '/v1/admin/alerts', undefined, gateway.tokens.viewer)
const alertOf = async (name: string) => (await list()).alerts.find(({ alert }) => alert === name)
/** Turns the clock on until the rules have been evaluated anew. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 15 * secondMs) {
    const before = (await list()).evaluated_at
    await clock.pass(15 * secondMs)
    await waitFor('the rules to be evaluated', async () => (await list()).evaluated_at !== before)
  }
}

test('§18: every rule is evaluated, or says why it is not', async () => {
  const found = await list()
  expect([...Value.Errors(AlertList, found)]).toEqual([])
  expect(found.rules.map(({ alert }) => alert)).toEqual(rules.map(({ name }) => name))
  const unseen = found.rules.filter(({ evaluated }) => !evaluated)
  const known = process.platform === 'linux' ? [] : ['PenstockDescriptors']
  expect(unseen.map(({ alert }) => alert)).toEqual(['PenstockDown', 'PenstockRestarts', ...known])
  for (const { why_not: why } of unseen) expect(why).toMatch(/^[A-Z].+\.$/)
  expect([found.silent_processes, found.series_left_out]).toEqual([0, 0])
})

test('§18: failures of every request are pending, then an alert with what helps, and gone when they are', async () => {
  node.setFaults({ kind: 'status500' })
  const failing = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += minuteMs / 4) {
      expect((await ask()).status).toBeGreaterThanOrEqual(500)
      await pass(minuteMs / 4)
    }
  }
  await failing(2 * minuteMs)
  const early = await alertOf('PenstockErrors')
  expect(early).toMatchObject({ state: 'pending', severity: 'critical', fires_since: null })
  await failing(5 * minuteMs)
  const late = await alertOf('PenstockErrors')
  expect(late).toMatchObject({
    state: 'firing',
    since: early?.since,
    help_url: `${gateway.url}/docs/operations/observe#alerts`,
  })
  expect(late?.summary).toMatch(/^[\d.]+% of the inference requests end with a 5xx$/)
  // What operators read meanwhile does not count.
  expect(late?.value).toBe(1)
  expect((await fetch(late?.help_url ?? '')).status).toBe(200)
  const text = await cli.run(['alerts'])
  expect([text.code, text.out]).toEqual([
    0,
    expect.stringMatching(/firing +critical +PenstockErrors .*% of the inference requests end with a 5xx/),
  ])
  expect(text.out).toContain('PenstockErrors: Which `code` in the log')
  expect(text.out).toContain('PenstockDown is not evaluated here: A gateway that does not answer cannot say so.')

  node.setFaults()
  await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/resume`, { reason: 'mended' }).catch(() => {})
  await pass(6 * minuteMs)
  expect(await alertOf('PenstockErrors')).toBeUndefined()
})

test('§18: a pool without a node that takes work is an alert after two minutes', async () => {
  await gateway.admin('POST', `/v1/admin/nodes/${nodeId}/drain`, { reason: 'test' })
  await pass(30 * secondMs)
  expect(await alertOf('PenstockNoReadyNode')).toMatchObject({ state: 'pending', value: 0, labels: {} })
  await pass(2 * minuteMs)
  expect(await alertOf('PenstockNoReadyNode')).toMatchObject({ state: 'firing', summary: 'No node takes work' })
})
