import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { NodeList } from '../../src/protocol/wire/admin/admin.ts'
import type { AdminModelList } from '../../src/protocol/wire/admin/catalogue.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
await gateway.customer()
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('§35: kinds of work on the page', () => {
  let console: ConsolePage
  let page: Page
  const server: ScriptedNode = startScriptedNode('org/foo')
  beforeAll(async () => {
    console = await openConsole(browser, gateway.url)
    page = console.page
    await console.signIn(gateway.tokens.admin)
  })
  afterAll(async () => {
    server.stop()
  })

  const dialog = () => page.getByRole('dialog')
  const press = (name: string) => dialog().getByRole('button', { name, exact: true }).click()
  const closed = () => page.locator('dialog').waitFor({ state: 'detached' })
  const work = () => dialog().getByLabel('Kinds of work')
  const node = async () => {
    const { nodes } = await gateway.admin<NodeList>('GET', '/v1/admin/nodes')
    return nodes[0]
  }
  const declared = async () => (await node())?.serves ?? null

  test('a new node declares it for all of its models, and the page of the node for one, with a way back', async () => {
    await console.show('Pool')
    await page.getByRole('button', { name: 'Add a node' }).first().click()
    await dialog().getByLabel('URL').fill(server.url)
    await work().fill('rerank')
    await dialog().getByLabel('Reason').fill('a ranker')
    await press('Add')
    await closed()
    expect(await declared()).toEqual({ '*': ['rerank'] })

    await page.getByRole('button', { name: server.url.replace('http://', ''), exact: true }).click()
    await page.getByRole('rowheader', { name: /^org\/foo rerank/ }).waitFor()
    await page.getByRole('button', { name: 'Declare work org/foo' }).click()
    expect(await work().inputValue()).toBe('')
    await work().fill('chat, embedding')
    await dialog().getByLabel('Reason').fill('it chats')
    await press('Declare work')
    await closed()
    expect(await declared()).toEqual({ '*': ['rerank'], 'org/foo': ['chat', 'embedding'] })
    await page.getByRole('rowheader', { name: /^org\/foo chat, embedding/ }).waitFor()

    await page.getByRole('button', { name: 'Undo' }).click()
    await dialog().getByLabel('Reason').fill('it does not')
    await press('Put back')
    await closed()
    expect(await declared()).toEqual({ '*': ['rerank'] })
  })

  test('a word that is no kind of work is refused in the form, which stays open', async () => {
    await page.getByRole('button', { name: 'Declare work org/foo' }).click()
    await work().fill('dancing')
    await dialog().getByLabel('Reason').fill('wrong')
    await press('Declare work')
    await dialog()
      .getByRole('alert')
      .getByText(/serves/)
      .waitFor()
    expect(await declared()).toEqual({ '*': ['rerank'] })
    await page.keyboard.press('Escape')
    await closed()
  })

  test('the form of a model declares it for all nodes', async () => {
    await console.show('Models')
    await page.getByRole('button', { name: 'Edit org/foo' }).click()
    await work().fill('embedding chat')
    await press('Save')
    await closed()
    const { models } = await gateway.admin<AdminModelList>('GET', '/v1/admin/models')
    expect(models.map(({ id, serves }) => [id, serves])).toEqual([['org/foo', ['embedding', 'chat']]])
  })
})
