import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { NodeList } from '../../src/protocol/wire/admin/admin.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()

describe.skipIf(!hasBrowser)('what is wrong is mended where it is shown', () => {
  let browser: Browser
  const nodes: FakeNode[] = [startFakeNode({ models: ['wanted'] }), startFakeNode({ models: ['broken'] })]
  const ask = async (model: string) =>
    (await gateway.chat(customer.key, { model, messages: [{ role: 'user', content: 'hi' }] })).status
  beforeAll(async () => {
    for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })
    await gateway.admin('PATCH', `/v1/admin/customers/${customer.customerId}`, {
      display_name: 'Ada',
      gateway_policy_changes: { allowed_models: ['broken'] },
      reason: 'test',
    })
    nodes[1]?.setFaults({ kind: 'status500' })
    await waitFor('the refusal', async () => (await ask('wanted')) === 403)
    expect(await ask('broken')).toBeGreaterThanOrEqual(500)
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    for (const node of nodes) node.stop()
  })

  test('a refusal by a policy leads to the policy, which says what it reaches before it is saved; a node that fails is drained', async () => {
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await console.signIn(gateway.tokens.admin)
    await console.show('Now')
    await console.picture('console-now-trouble-light')
    const room = page.getByRole('region', { name: 'Room left' }).getByRole('listitem')
    await room.filter({ hasText: /^wanted .*1 node/ }).waitFor()
    const cause = (code: string) => page.getByRole('listitem').filter({ has: page.getByText(code, { exact: true }) })
    await cause('model_not_allowed')
      .locator('dd', { hasText: /^test of Ada$/ })
      .waitFor()
    await cause('model_not_allowed')
      .getByRole('button', { name: /^Change the account's policy/ })
      .click()
    const dialog = page.getByRole('dialog')
    await dialog
      .getByLabel(/^Models/)
      .first()
      .fill('broken, wanted')
    await dialog
      .getByText(/reaches 1 model on 1 node now, and 2 models on 2 nodes after the change.*gains wanted/)
      .waitFor()
    expect(await console.violations()).toEqual([])
    await dialog.getByLabel('Reason').fill('asked for')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await waitFor('the request to pass', async () => (await ask('wanted')) === 200)

    await cause('model_not_allowed')
      .getByRole('button', { name: /^Change the key's policy/ })
      .click()
    await dialog.getByRole('heading').first().waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    await cause('upstream_error')
      .getByRole('button', { name: /^Drain / })
      .click()
    await dialog.getByLabel('Reason').fill('fails')
    await dialog.getByRole('button', { name: 'Drain' }).click()
    await waitFor('the drain', async () =>
      (await gateway.admin<NodeList>('GET', '/v1/admin/nodes')).nodes.some(
        ({ admin_state: state, url }) => state === 'draining' && url === nodes[1]?.url,
      ),
    )
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await page.getByRole('button', { name: 'Sign out' }).click()
    await console.signIn(gateway.tokens.viewer)
    await console.show('Now')
    await page.getByText('upstream_error', { exact: true }).waitFor()
    expect(await page.getByRole('button', { name: /Drain|Change/ }).count()).toBe(0)
    expect(console.faults).toEqual([])
    await console.close()
  })
})
