import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { MemoryPlanList } from '../../../src/protocol/wire/admin/memory-plan.ts'
import { commandLine } from '../../cli/command-line.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { shownMetric } from '../../support/gateways/metric.ts'
import { scriptModel } from '../../support/nodes/model-files.ts'
import { startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { type PlannedPool, startPlannedPool } from '../../support/pools/planned-pool.ts'

const placeOf = ({ places }: MemoryPlanList, model: string) => places.find((place) => place.model === model)
const sentence = /^Load a on .+: \d+ % of its calls waited [\d.]+ s for a load in the last hour\.$/

describe('§37 the plan of the memory, as advice', () => {
  let rig: PlannedPool
  beforeAll(async () => {
    rig = await startPlannedPool('advise', [
      scriptModel('a', { 'load-ms': '800', 'answer-ms': '600' }),
      scriptModel('b'),
      scriptModel('pinned', {}, { pinned: true }),
    ])
    for (let call = 0; call < 6; call++) expect(await rig.ask('a')).toBe(200)
  })
  afterAll(() => rig?.stop())

  test('§37: what is asked for and in memory stays, what nobody asks for is away, and a pin is kept', async () => {
    // A plan is as good as new for a moment.
    await waitFor('all of it to be planned', async () => {
      const plan = await rig.plan()
      const there = (model: string) => placeOf(plan, model)?.loaded === true
      return there('a') && there('pinned') && plan.models[0]?.calls === 6
    })
    const plan = await rig.plan()
    expect([placeOf(plan, 'a')?.step, placeOf(plan, 'b')?.step, placeOf(plan, 'pinned')?.step]).toEqual([
      'stay',
      'away',
      'stay',
    ])
    expect(placeOf(plan, 'pinned')).toMatchObject({ pinned: true, memory_mb: 40, why: null })
    expect(plan).toMatchObject({ mode: 'advise', exact: true })
    expect(plan.models[0]).toMatchObject({ model: 'a', calls: 6, waited_calls: 1, replicas: 1, wanted_replicas: 1 })
  })

  test('§37: a model that its callers wait for is to be loaded, with the reason; nothing is done by itself', async () => {
    await rig.tell('unload', 'a')
    await waitFor('the advice', async () => placeOf(await rig.plan(), 'a')?.step === 'load')
    const place = placeOf(await rig.plan(), 'a')
    expect(place?.why).toMatch(sentence)
    expect(place?.saves_ms).toBeGreaterThan(0)
    expect(rig.folder.stateOf('a')).toBe('stopped')
  })

  test('§37: the command prints the plan, and the table has its rows', async () => {
    const cli = commandLine({ SVC_BASE_URL: rig.gateway.url, SVC_ADMIN_TOKEN: rig.gateway.tokens.viewer })
    const { code, out } = await cli.run(['plan'])
    cli.close()
    expect(code).toBe(0)
    expect(out).toContain('to load')
    expect(out.split('\n').some((line) => sentence.test(line))).toBe(true)
    const csv = await fetch(`${rig.gateway.url}/v1/admin/plan?format=csv`, {
      headers: { 'x-svc-admin-token': rig.gateway.tokens.viewer },
    })
    expect((await csv.text()).split('\r\n')[0]).toStartWith('"model","node_id","node","step","why",')
  })

  test('§37: how many servers a model wants is a metric', async () => {
    expect(await shownMetric(rig.gateway, 'svc_wanted_replicas', 'model="a"')).toBe(1)
  })
})

describe('§37 the plan of the memory, done', () => {
  let rig: PlannedPool
  beforeAll(async () => {
    rig = await startPlannedPool('act', [
      scriptModel('a', { 'load-ms': '800', 'answer-ms': '600' }),
      scriptModel('b'),
      scriptModel('c'),
    ])
  })
  afterAll(() => rig?.stop())

  test('§37: the gateway loads what callers wait for by the action of operators, with its events and its reason', async () => {
    for (let call = 0; call < 6; call++) expect(await rig.ask('a')).toBe(200)
    await rig.tell('unload', 'a')
    await waitFor('it to be away', () => rig.folder.stateOf('a') === 'stopped')
    await waitFor('it to be loaded', () => rig.folder.stateOf('a') === 'ready.idle')
    const { events } = await rig.gateway.admin<{ events: Record<string, unknown>[] }>(
      'GET',
      '/v1/admin/approval-events?action=node.model.load&limit=1',
    )
    expect(events[0]).toMatchObject({
      actor_type: 'gateway',
      actor_role: 'operator',
      target_id: rig.agent.nodeId,
      metadata: { model: 'a' },
    })
    expect(events[0]?.reason).toMatch(sentence)
    const commands = await rig.gateway.admin<{ events: Record<string, unknown>[] }>(
      'GET',
      '/v1/admin/command-events?action=model.load&limit=1',
    )
    expect(commands.events[0]).toMatchObject({ action: 'model.load', actor_type: 'gateway' })
    const chain = await rig.gateway.admin<{ holds: boolean }>('GET', '/v1/admin/audit/verify')
    expect(chain.holds).toBe(true)
  })
})

test('§37: a load that its node refuses is not tried again soon, and a node that tells no budget holds what was seen there', async () => {
  const gateway = await startTestGateway({ env: { SVC_PLAN: 'act', SVC_ADMIN_RPM_PER_TOKEN: '1000000' } })
  const customer = await gateway.customer()
  const ollama = startOllamaNode({ models: ['x', 'y'] })
  const nodeId = await gateway.node(ollama.url, { customerId: customer.customerId })
  for (let call = 0; call < 12; call++) {
    const response = await gateway.chat(customer.key, { model: 'x', messages: [{ role: 'user', content: 'hi' }] })
    expect(response.status).toBe(200)
    await response.text()
  }
  ollama.failLoads()
  ollama.unload('x')
  const told = () => ollama.calls.filter(({ path }) => path === '/api/generate').length
  await waitFor('the gateway to tell it', () => told() > 0)
  const plan = () => gateway.admin<MemoryPlanList>('GET', '/v1/admin/plan')
  for (let round = 0; round < 2; round++) {
    const { planned_at: before } = await plan()
    await waitFor('another plan', async () => (await plan()).planned_at !== before)
  }
  expect(placeOf(await plan(), 'x')).toMatchObject({ node_id: nodeId, step: 'load', in_place_of: null })
  expect(told()).toBe(1)
  ollama.stop()
  await gateway.stop()
})

test('§37: a plan that is off is empty and says so', async () => {
  const gateway = await startTestGateway({ env: { SVC_PLAN: 'off' } })
  const plan = await gateway.admin<MemoryPlanList>('GET', '/v1/admin/plan')
  expect(plan).toMatchObject({ mode: 'off', planned_at: null, count: 0, places: [], models: [] })
  await gateway.stop()
})
