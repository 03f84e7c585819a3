import { expect, test } from 'bun:test'
import type { Node } from '../../../src/protocol/wire/admin/admin.ts'
import { hasBrowser, launchBrowser, openConsole } from '../../support/console/console.ts'
import { seriesOf } from '../../support/gateways/metric.ts'
import { startPaidGateway } from '../../support/money/paid-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const paid = await fixture(startPaidGateway({ promptPrice: 10n, outputPrice: 1_000n, creditWei: 10n ** 12n }))
await paid.gateway.admin('PATCH', `/v1/admin/nodes/${paid.nodeId}`, { name: 'greedy' })

const claim = (completion: number) =>
  paid.node.setAnswer({
    text: 'hello',
    usage: { prompt_tokens: 9, completion_tokens: completion, total_tokens: 9 + completion },
  })
async function asked(times: number, stream = false): Promise<void> {
  for (let at = 0; at < times; at++) expect(await (await paid.ask({ stream })).text()).toContain('receipt_hash')
}

const nodes = (token: string) => paid.gateway.admin<{ nodes: Node[] }>('GET', '/v1/admin/nodes', undefined, token)
async function claims(): Promise<Node['usage_claims'] | undefined> {
  const list = await nodes(paid.gateway.tokens.viewer)
  const node = await paid.gateway.admin<Node>('GET', `/v1/admin/nodes/${paid.nodeId}`)
  expect(node.usage_claims).toEqual((list.nodes[0] as Node).usage_claims)
  return node.usage_claims
}
async function metric(): Promise<readonly number[]> {
  const headers = { authorization: `Bearer ${paid.gateway.tokens.viewer}` }
  const text = await (await fetch(`${paid.gateway.url}/metrics`, { headers })).text()
  const series = [...seriesOf(text, 'svc_node_usage_claims_at_bound')]
  return series.filter(([labels]) => labels.includes('node="greedy"')).map(([, value]) => value)
}

test('§5: a node whose claims lie at the bound too often is to be reviewed, and no longer once they slid away', async () => {
  expect(await claims()).toEqual({ calls: 0, at_bound: 0, review: false })
  expect(await metric()).toEqual([])
  claim(2)
  await asked(3)
  await asked(3, true)
  claim(10)
  await asked(5)
  expect(await claims()).toEqual({ calls: 11, at_bound: 5, review: false })
  await asked(1, true)
  expect(await claims()).toEqual({ calls: 12, at_bound: 6, review: true })
  expect(await metric()).toEqual([6])

  const { nodes: seen } = await nodes(paid.gateway.tokens.viewer)
  expect(JSON.stringify(seen)).not.toContain(paid.payer.customerId)
  const words = JSON.stringify((await nodes(paid.gateway.tokens.operator)).nodes.map((node) => node.usage_claims))
  expect(words).toBe('[{"calls":12,"at_bound":6,"review":true}]')

  claim(2)
  await asked(95)
  expect(await claims()).toEqual({ calls: 100, at_bound: 5, review: false })
  expect(await metric()).toEqual([5])
})

test('§5: what nobody pays for is no claim', async () => {
  const before = await claims()
  claim(1_000)
  const owner = await paid.gateway.database.sql<{ id: string }[]>`
    select customer_id as id from nodes where node_id = ${paid.nodeId}`
  const { gateway_key: key } = await paid.gateway.admin<{ gateway_key: string }>(
    'POST',
    `/v1/admin/customers/${owner[0]?.id}/keys`,
    { name: 'own' },
  )
  const response = await paid.gateway.chat(key, { model: 'paid', messages: [{ role: 'user', content: 'hi' }] })
  expect([response.status, (await response.json()).usage.completion_tokens]).toEqual([200, 1_000])
  expect(await claims()).toEqual(before as Node['usage_claims'])
})

test.skipIf(!hasBrowser)('the console says so in the pool', async () => {
  claim(10)
  await asked(6)
  await using browser = await scoped(launchBrowser())
  const { page, signIn } = await openConsole(browser, paid.gateway.url)
  await signIn(paid.gateway.tokens.operator)
  await page.evaluate("location.hash = '#pool'")
  const row = page.locator(`[data-row="${paid.nodeId}"]`)
  await row.getByText('review', { exact: true }).waitFor()
  await row.getByRole('button', { name: 'greedy' }).first().click()
  await row.getByText(/of the last 100 paid calls$/).waitFor()
})
