import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { AdminRequestList, RequestStory } from '../../src/protocol/wire/admin/requests.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type GatewayProcess, spawnGateway } from '../support/gateways/gateway-process.ts'
import { type TcpSwitch, tcpSwitch } from '../support/gateways/tcp-switch.ts'

const portOf = (url: string) => Number(new URL(url).port)
const models = ['llama', 'qwen'] as const

describe.skipIf(!hasBrowser)('two gateways on one database', () => {
  let first: TestGateway
  let second: TestGateway
  let firstProcess: GatewayProcess
  let door: TcpSwitch
  let customer: TestCustomer
  let browser: Browser
  let nodes: readonly FakeNode[]
  const from = new Date(Date.now() - 600_000).toISOString()

  beforeAll(async () => {
    first = await startTestGateway({
      launch: async (env) => {
        firstProcess = await spawnGateway(env)
        return firstProcess
      },
    })
    second = await startTestGateway({ beside: first, launch: spawnGateway })
    door = await tcpSwitch(portOf(first.url))
    customer = await first.customer()
    nodes = models.map((model) => startFakeNode({ models: [model] }))
    for (const [at, node] of nodes.entries()) {
      const id = await first.node(node.url, { customerId: customer.customerId })
      await first.admin('PATCH', `/v1/admin/nodes/${id}`, { name: `rack-${at + 1}` })
    }
    await waitFor('the second gateway to see both nodes', async () => {
      const { models: known } = await second.admin<{ models: readonly { nodes_ready: number }[] }>(
        'GET',
        '/v1/admin/models',
      )
      return known.filter(({ nodes_ready }) => nodes_ready > 0).length === models.length
    })
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    door?.stop()
    for (const node of nodes ?? []) node.stop()
    await second?.stop()
    await first?.stop()
  })

  const chat = async (gateway: TestGateway, model: string) => {
    const response = await gateway.chat(customer.key, {
      model,
      stream: true,
      messages: [{ role: 'user', content: 'hi' }],
    })
    await response.text()
    expect(response.status).toBe(200)
  }
  const listOf = (gateway: TestGateway) => gateway.admin<AdminRequestList>('GET', `/v1/admin/requests?from=${from}`)
  /** What an answer says beside when it was made. */
  const body = async (gateway: TestGateway, path: string) => {
    const { generated_at: _, ...rest } = await gateway.admin<Record<string, unknown>>('GET', path)
    return rest
  }

  test('§32: either gives the same answers, whichever served a request', async () => {
    for (const gateway of [first, second]) for (const model of models) await chat(gateway, model)
    const wanted = 2 * models.length
    await waitFor('both to list all', async () => {
      const counts = await Promise.all([first, second].map(async (each) => (await listOf(each)).count))
      return counts.every((count) => count === wanted)
    })
    const to = new Date().toISOString()
    const paths = [
      `/v1/admin/requests?from=${from}&to=${to}`,
      `/v1/admin/traffic?from=${from}&to=${to}`,
      '/v1/admin/customers',
      '/v1/admin/machines',
      '/v1/admin/jobs',
      '/v1/admin/webhooks',
      '/v1/admin/payout-batches',
      '/v1/admin/ledger/proof',
      '/v1/admin/approval-policy',
    ]
    for (const path of paths)
      expect({ path, ...(await body(first, path)) }).toEqual({ path, ...(await body(second, path)) })
    for (const { request_id: id } of (await listOf(first)).requests) {
      const [one, other] = await Promise.all(
        [first, second].map((each) => each.admin<RequestStory>('GET', `/v1/admin/requests/${id}`)),
      )
      // Why a node was chosen is in the memory of the one that chose.
      expect([one?.request, one?.attempts, one?.states]).toEqual([other?.request, other?.attempts, other?.states])
      expect(one?.explain === null).not.toBe(other?.explain === null)
    }
  })

  test('one is killed while the console is open: the other takes over, and the same is there', async () => {
    const console = await openConsole(browser, `http://127.0.0.1:${door.port}`)
    const { page } = console
    await console.signIn(first.tokens.operator)
    await page.getByRole('button', { name: 'rack-2', exact: true }).waitFor()
    await console.show('Requests')
    const rows = page.getByRole('group', { name: 'Requests, newest first' }).getByRole('row')
    const links = () => rows.getByRole('link').evaluateAll((all) => all.map((each) => each.getAttribute('title')))
    const known = (await listOf(second)).requests.map(({ request_id: id }) => id)
    await rows.nth(known.length).waitFor()
    expect(await links()).toEqual(known)
    door.target = 0
    await firstProcess.kill()
    await page.getByText('Connection lost.').waitFor()
    expect(await links()).toEqual(known)
    door.target = portOf(second.url)
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByText('Connection lost.').waitFor({ state: 'hidden' })
    await chat(second, models[1])
    await rows.nth(known.length + 1).waitFor()
    expect((await links()).slice(1)).toEqual(known)
    await rows.nth(1).getByRole('link').click()
    await page.getByRole('heading', { name: 'What happened' }).waitFor()
    await console.show('Traffic')
    await page.getByRole('link', { name: '1 hour', exact: true }).click()
    await page
      .locator('.figure', { hasText: 'Requests' })
      .getByText(String(known.length + 1))
      .waitFor()
    expect(console.faults).toEqual([])
    await console.close()
  })
})
