import { beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Customer } from '../../src/protocol/wire/admin/accounts.ts'
import type { AdminModelList } from '../../src/protocol/wire/admin/catalogue.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const model = 'org/priced'

const gateway = await fixture(startTestGateway())
await gateway.admin('PUT', '/v1/admin/models', { id: model, aliases: ['one'], prompt_token_price_wei: '5' })
const { customer_id: id } = await gateway.admin<Customer>('POST', '/v1/admin/customers', { display_name: 'Shared' })
const place = `/v1/admin/customers/${id}`
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('§23: a form that was opened before somebody else changed the same', () => {
  let console: ConsolePage
  let page: Page
  const sent: unknown[] = []
  beforeAll(async () => {
    console = await openConsole(browser, gateway.url)
    page = console.page
    page.on('request', (request) => {
      if (request.method() === 'PATCH') sent.push([request.headers()['if-match'], request.postDataJSON()])
    })
    await console.signIn(gateway.tokens.admin)
  })

  const dialog = () => page.getByRole('dialog')
  const press = (name: string) => dialog().getByRole('button', { name, exact: true }).click()
  const closed = () => page.locator('dialog').waitFor({ state: 'detached' })
  /** The rows that differ: by name what was seen, what it is now, and what was made of it here. */
  const conflict = async () => {
    await dialog().getByText('Somebody has changed this since you opened the form.').waitFor()
    const rows = await dialog().locator('.conflict tbody tr').all()
    return Promise.all(rows.map(async (row) => (await row.locator('th, td').allTextContents()).join(' | ')))
  }
  const entry = async () => {
    const { models } = await gateway.admin<AdminModelList>('GET', '/v1/admin/models')
    const found = models.find(({ id }) => id === model)
    return [found?.aliases, found?.prompt_token_price_wei, found?.completion_token_price_wei, found?.name]
  }
  const other = (changes: object) => gateway.admin('PATCH', '/v1/admin/models', { id: model, ...changes })
  const etags = async () =>
    (await gateway.admin<AdminModelList>('GET', '/v1/admin/models')).models.flatMap(({ etag }) => etag ?? [])
  const policy = async () => (await gateway.admin<Customer>('GET', place)).gateway_policy

  test('shows what was seen, what it is now and what was typed; to leave it keeps what the other one made of it', async () => {
    await console.show('Models')
    await page.getByLabel('Amounts in').selectOption('wei')
    await page.getByRole('button', { name: `Edit ${model}` }).click()
    await dialog().getByLabel('Price of a million prompt tokens').fill('6000000')
    await other({ prompt_token_price_wei: '7', name: 'Theirs', aliases: ['one', 'two'] })
    await press('Save')
    expect(await conflict()).toEqual([
      'Aliases | one | one, two | not changed',
      'Price of a million prompt tokens | 5000000 | 7000000 | 6000000',
      'Name | – | Theirs | not changed',
    ])
    expect(await console.violations()).toEqual([])
    await console.picture('console-conflict-light')
    expect(await entry()).toEqual([['one', 'two'], '7', null, 'Theirs'])
    await press('Leave it as it is now')
    await closed()
    expect(await entry()).toEqual([['one', 'two'], '7', null, 'Theirs'])
    // What is shown behind the form is what the form has just shown.
    await page.getByRole('row', { name: /org\/priced.*one, two/ }).waitFor()
  })

  test('saved all the same, writes what was typed and nothing else; a third change in between is shown as well', async () => {
    await page.getByRole('button', { name: `Edit ${model}` }).click()
    await dialog().getByLabel('Price of a million prompt tokens').fill('6000000')
    const [seen] = await etags()
    await other({ prompt_token_price_wei: '8', completion_token_price_wei: '9' })
    const [second] = await etags()
    sent.length = 0
    await press('Save')
    expect(await conflict()).toEqual([
      'Price of a million prompt tokens | 7000000 | 8000000 | 6000000',
      'Price of a million answer tokens | – | 9000000 | not changed',
    ])
    await other({ name: 'Renamed' })
    await press('Save mine all the same')
    await dialog().getByRole('cell', { name: 'Renamed' }).waitFor()
    expect(await conflict()).toEqual(['Name | Theirs | Renamed | not changed'])
    expect(await entry()).toEqual([['one', 'two'], '8', '9', 'Renamed'])
    const [third] = await etags()
    await press('Save mine all the same')
    await closed()
    expect(await entry()).toEqual([['one', 'two'], '6', '9', 'Renamed'])
    const body = { id: model, prompt_token_price_wei: '6' }
    expect(sent).toEqual([
      [seen, body],
      [second, body],
      [third, body],
    ])
    // The way back puts back what was there before this form, and leaves the rest.
    await page.getByRole('button', { name: 'Undo' }).click()
    await other({ name: 'Meanwhile' })
    await press('Put back')
    expect(await conflict()).toEqual(['Name | Renamed | Meanwhile'])
    await press('Put back mine all the same')
    await closed()
    expect(await entry()).toEqual([['one', 'two'], '8', '9', 'Meanwhile'])
  })

  test('of a customer sends the one field of the policy that was changed, in the words of the form', async () => {
    await console.show('Customers')
    await page.getByRole('link', { name: 'Shared' }).click()
    await page.getByRole('button', { name: 'Whose nodes' }).click()
    await dialog().getByLabel('Hosted providers').selectOption('yes')
    await dialog().getByLabel('Reason').fill('asked for it')
    const changes = { daily_token_quota: 500, rate_limit_rpm: 3, min_privacy_class: 'public' }
    await gateway.admin('PATCH', place, { gateway_policy: changes })
    sent.length = 0
    await press('Set')
    expect(await conflict()).toEqual([
      'Prompts may go to | own nodes only | own nodes and all public nodes of others | not changed',
      'Requests a minute | – | 3 | not changed',
      'Tokens a day | – | 500 | not changed',
    ])
    await press('Set mine all the same')
    await closed()
    // The next form is of what the page has read again.
    const figure = page.locator('.figure', { hasText: 'Prompts may go to' })
    await figure.getByText('all public nodes of others, hosted providers too').waitFor()
    expect(await policy()).toEqual({ ...changes, allow_external: true } as never)
    expect(sent.map((each) => (each as [string, object])[1])).toEqual(
      Array(2).fill({ gateway_policy_changes: { allow_external: true }, reason: 'asked for it' }),
    )
    await page.getByRole('button', { name: 'Daily limit' }).click()
    await dialog().getByLabel('Tokens a day').fill('')
    await dialog().getByLabel('Reason').fill('no limit')
    await press('Set')
    await closed()
    const { daily_token_quota: _, ...rest } = changes
    expect(await policy()).toEqual({ ...rest, allow_external: true } as never)
    // An undo is a form like any other.
    await page.getByRole('button', { name: 'Undo' }).click()
    await dialog().getByLabel('Reason').fill('back')
    await gateway.admin('PATCH', place, { gateway_policy_changes: { daily_token_quota: 900 } })
    await press('Set')
    expect(await conflict()).toEqual(['Tokens a day | – | 900 | 500'])
    await press('Leave it as it is now')
    await closed()
    expect(await policy()).toEqual({ ...rest, daily_token_quota: 900, allow_external: true } as never)
    expect(console.faults).toEqual([])
  })

  test('§35: what a model is for is typed into its form, and put back', async () => {
    const serves = async () =>
      (await gateway.admin<AdminModelList>('GET', '/v1/admin/models')).models.find(({ id }) => id === model)?.serves
    await console.show('Pool')
    await console.show('Models')
    await page.getByRole('button', { name: `Edit ${model}` }).click()
    await dialog().getByLabel('Kinds of work').fill('rerank, chat')
    await press('Save')
    await closed()
    expect(await serves()).toEqual(['rerank', 'chat'])
    await page.getByRole('button', { name: 'Undo' }).click()
    await press('Put back')
    await closed()
    expect(await serves()).toBeNull()
  })
})
