import { beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const model = 'sold'

interface Listed {
  readonly keys: readonly { readonly name: string; readonly model_policy: object | null }[]
}

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: [model] }))
await gateway.node(node.url, { visibility: 'public', privacyClass: 'public' })
const price = { prompt_token_price_wei: '3', completion_token_price_wei: '5' }
await gateway.admin('PUT', '/v1/admin/models', { id: model, ...price })
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('§9: a key that pays for other people’s nodes, by clicks alone', () => {
  let console: ConsolePage
  let page: Page
  beforeAll(async () => {
    console = await openConsole(browser, gateway.url)
    page = console.page
    await console.signIn(gateway.tokens.admin)
  })

  const dialog = () => page.getByRole('dialog')
  const press = (name: string) => dialog().getByRole('button', { name, exact: true }).click()
  const keyShown = async () => {
    const key = (await dialog().locator('.secret code').first().textContent()) ?? ''
    expect(key).toStartWith('svc_gateway_')
    await press('Done')
    await page.locator('dialog').waitFor({ state: 'detached' })
    return key
  }
  const mayChat = async (key: string) =>
    (await gateway.chat(key, { model, messages: [{ role: 'user', content: 'hi' }] })).status
  const customerId = async (name: string) => {
    const { customers } = await gateway.admin<{ customers: { display_name: string; customer_id: string }[] }>(
      'GET',
      '/v1/admin/customers',
    )
    return customers.find((each) => each.display_name === name)?.customer_id ?? ''
  }
  const policyOf = async (name: string) =>
    (await gateway.admin<{ gateway_policy: object | null }>('GET', `/v1/admin/customers/${await customerId(name)}`))
      .gateway_policy
  const figure = () => page.locator('.figure', { hasText: 'Prompts may go to' })

  test('a customer whose key may pay is made in one form; Try it lists the model, says its price, and sends', async () => {
    await console.show('Customers')
    await page.getByRole('button', { name: 'Add a customer' }).click()
    await dialog().getByLabel('Name').fill('Payer')
    await dialog().getByLabel('Prompts may go to').selectOption('public')
    await dialog().getByLabel('Reason').fill('pays for what others serve')
    expect(await console.violations()).toEqual([])
    await press('Create')
    const key = await keyShown()
    const path = `/v1/admin/customers/${await customerId('Payer')}`
    await gateway.admin('POST', `${path}/credits`, { amount_wei: '1000000' })
    await console.show('Try it')
    await page.getByLabel('Gateway key').fill(key)
    await page.getByText('a token costs 3 wei in the prompt and 5 wei in the answer').waitFor()
    expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe(model)
    // Nobody's own node serves it, and a mixture never leaves those.
    await page.getByLabel('Ask several models').check()
    await page.getByText('The models that the key may use appear here.').waitFor()
    await page.getByLabel('Ask several models').uncheck()
    await page.getByLabel('Message').fill('What does it cost?')
    expect(await console.violations()).toEqual([])
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('region', { name: 'Trace of the answer' }).waitFor()
    await waitFor('the debit', async () => {
      const { balance_wei: wei } = await gateway.admin<{ balance_wei: string }>('GET', path)
      return Number(wei) < 1_000_000
    })
  })

  test('by default a customer and a key keep prompts on own nodes', async () => {
    await console.show('Customers')
    await page.getByRole('button', { name: 'Add a customer' }).click()
    await dialog().getByLabel('Name').fill('Homebody')
    expect(await dialog().getByLabel('Prompts may go to').inputValue()).toBe('private')
    expect(await dialog().getByLabel('Hosted providers').inputValue()).toBe('no')
    await dialog().getByLabel('Reason').fill('as usual')
    await press('Create')
    expect(await mayChat(await keyShown())).toBe(403)
    expect(await policyOf('Homebody')).toBeNull()
    const { keys } = await gateway.admin<Listed>('GET', `/v1/admin/customers/${await customerId('Homebody')}/keys`)
    expect(keys.map(({ model_policy: policy }) => policy)).toEqual([null])
  })

  test('a key beyond its account is said to be so while it is made and where it is listed; the account is opened and put back', async () => {
    const daily = { daily_token_quota: 5_000 }
    await gateway.admin('PATCH', `/v1/admin/customers/${await customerId('Homebody')}`, { gateway_policy: daily })
    await console.show('Customers')
    await page.getByRole('link', { name: 'Homebody' }).click()
    await figure().getByText('own nodes only').waitFor()
    await page.getByRole('button', { name: 'New key' }).click()
    await dialog().getByLabel('Name').fill('traveller')
    await dialog().getByLabel('Prompts may go to').selectOption('public')
    await dialog().getByText('The account allows own nodes only.').waitFor()
    await dialog().getByLabel('Reason').fill('for the road')
    await press('Issue anyway')
    const key = await keyShown()
    expect(await mayChat(key)).toBe(403)
    const row = page.getByRole('row', { name: /traveller/ })
    await row.getByText('but the account allows own nodes only').waitFor()
    expect(await console.violations()).toEqual([])

    await page.getByRole('button', { name: 'Whose nodes Homebody' }).click()
    await dialog().getByLabel('Prompts may go to').selectOption('public')
    await dialog().getByLabel('Hosted providers').selectOption('yes')
    await dialog().getByLabel('Reason').fill('allowed now')
    await press('Set')
    await figure().getByText('all public nodes of others, hosted providers too').waitFor()
    await row.getByText('but the account').waitFor({ state: 'detached' })
    // What the form does not show stays.
    expect(await policyOf('Homebody')).toEqual({ ...daily, min_privacy_class: 'public', allow_external: true })
    expect(await mayChat(key)).toBe(402)

    await page.getByRole('button', { name: 'Undo' }).click()
    await dialog().getByLabel('Reason').fill('not any more')
    await press('Set')
    await figure().getByText('own nodes only').waitFor()
    expect(await policyOf('Homebody')).toEqual(daily)
    expect(await mayChat(key)).toBe(403)
    expect(console.faults).toEqual([])
  })
})
