import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { NodeList } from '../../src/protocol/wire/admin/admin.ts'
import type { AdminModelList } from '../../src/protocol/wire/admin/catalogue.ts'
import { Clicks } from '../support/console/clicks.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { type ConsolePool, models, nodeNames, startConsolePool } from '../support/console/console-pool.ts'
import { payFor } from '../support/money/money.ts'

const ether = 10n ** 18n
const priced = models[1]

describe.skipIf(!hasBrowser)('what a person comes for, from the first page', () => {
  let pool: ConsolePool
  let browser: Browser
  let console: ConsolePage
  let page: Page
  let clicks: Clicks
  const stranger = startFakeNode({ models: ['phi-4'] })
  const shared = startFakeNode({ models: ['shared'] })
  const messages = [{ role: 'user', content: 'hi' }]
  const customer = () => `/v1/admin/customers/${pool.customer.customerId}`
  const ask = async (key: string, model: string) => (await pool.gateway.chat(key, { model, messages })).status
  beforeAll(async () => {
    pool = await startConsolePool()
    const { gateway } = pool
    const [nodeId = ''] = pool.nodeIds
    await gateway.admin('PATCH', customer(), { display_name: 'reader' })
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { payout_address: `0x${'a1'.repeat(20)}` })
    await gateway.admin('POST', `${customer()}/credits`, { amount_wei: String(5n * ether), reason: 'invoice 1' })
    await payFor(gateway.database, { customerId: pool.customer.customerId, nodeId, amountWei: ether / 4n })
    await gateway.admin('PUT', '/v1/admin/models', { id: priced, prompt_token_price_wei: '5' })
    await gateway.node(shared.url, { visibility: 'public', privacyClass: 'public' })
    for (const model of models) await pool.chat(model)
    await (await pool.mixture().done).text()
    // One failure that a policy causes, and one that nobody serves.
    await gateway.admin('PATCH', customer(), { gateway_policy: { denied_models: ['gemma-*'] } })
    expect(await ask(pool.customer.key, 'gemma-3-27b')).toBe(403)
    expect(await ask(pool.customer.key, 'nobody-has-it')).toBe(404)
    browser = await launchBrowser()
    console = await openConsole(browser, gateway.url)
    page = console.page
    await console.signIn(gateway.tokens.admin)
    clicks = await Clicks.of(page)
  })
  afterAll(async () => {
    await browser?.close()
    stranger.stop()
    shared.stop()
    await pool?.stop()
  })

  const dialog = () => page.getByRole('dialog')
  const field = (label: string | RegExp) => dialog().getByLabel(label).first()
  const send = (name: string) => clicks.enter(dialog().getByRole('button', { name, exact: true }))
  const closed = () => page.locator('dialog').waitFor({ state: 'detached' })
  const row = (name: string | RegExp) => page.getByRole('row', { name }).first()
  const button = (name: string | RegExp) => page.getByRole('button', { name, exact: typeof name === 'string' })

  test('nothing takes more clicks than docs/operations/run.md says', async () => {
    const { gateway } = pool
    await clicks.task('How is the last hour, beside yesterday?', () =>
      page.locator('.figure', { hasText: 'Succeeded' }).getByText('yesterday:').waitFor(),
    )
    await clicks.task('Mend what makes requests fail', async () => {
      const cause = page.getByRole('listitem').filter({ has: page.getByText('model_not_allowed', { exact: true }) })
      await cause.getByRole('button', { name: /^Change the account's policy/ }).click()
      await clicks.type(field('Not these models'), ' ')
      await dialog()
        .getByText(/gains gemma-3-27b/)
        .waitFor()
      await clicks.type(field('Reason'), 'they may')
      await send('Save')
      await closed()
      expect(await ask(pool.customer.key, 'gemma-3-27b')).toBe(200)
    })
    await clicks.task('Which requests of a customer failed in the last hour, and why?', async () => {
      await clicks.view('Customers')
      await page.getByRole('link', { name: 'reader', exact: true }).click()
      await page.getByRole('link', { name: 'Failed in the last hour' }).click()
      await row(/404 model_not_found/)
        .getByRole('link')
        .first()
        .click()
      await page.getByRole('heading', { name: 'Why it failed: No such model' }).waitFor()
    })
    await clicks.task('Why was this request slow?', async () => {
      await clicks.view('Requests')
      await row(/200/).getByRole('link').first().click()
      await page.getByRole('heading', { name: 'What happened' }).waitFor()
      await page.getByRole('group', { name: 'Choice 1' }).waitFor()
    })
    await clicks.task('Which node is the slowest?', async () => {
      await clicks.view('Pool')
      await button('First token').click()
      await page.locator('th[aria-sort=descending]').waitFor()
      const measured = await gateway.admin<NodeList>('GET', '/v1/admin/nodes')
      const ttft = ({ runtimes }: NodeList['nodes'][number]) =>
        Math.max(-1, ...runtimes.flatMap((each) => each.models.map(({ first_token: first }) => first?.ms ?? -1)))
      const slowest = measured.nodes.toSorted((a, b) => ttft(b) - ttft(a))[0]
      // What was measured a moment ago comes with the next news of the nodes.
      const first = page.locator('table.nodes tbody:has(th)').first()
      await first.getByRole('button', { name: slowest?.name ?? 'nobody', exact: true }).waitFor()
    })
    await clicks.task('Drain a node', async () => {
      await clicks.view('Pool')
      await button(`Drain ${nodeNames[1]}`).click()
      await clicks.type(field('Reason'), 'new fan')
      await send('Drain')
      await button(`Resume ${nodeNames[1]}`).waitFor()
    })
    await clicks.task('Who changed this node?', async () => {
      await clicks.view('Pool')
      await button(nodeNames[1]).click()
      await page.getByRole('link', { name: /^Who changed it/ }).click()
      const list = page.getByRole('group', { name: 'What was changed, newest first' })
      await list
        .getByRole('row', { name: /node\.drain.*admin/ })
        .first()
        .waitFor()
      await list.getByTitle(pool.nodeIds[0] ?? '').waitFor({ state: 'detached' })
    })
    await clicks.task('Add a node', async () => {
      await clicks.view('Pool')
      await button('Add a node').click()
      await clicks.type(field('URL'), stranger.url)
      await page.getByText(/answers there, with phi-4/).waitFor()
      await clicks.type(field('Reason'), 'bought')
      await send('Add')
      await page.getByText('The node is added.').waitFor()
    })
    await clicks.task('Which model belongs on which node?', async () => {
      await clicks.view('Plan')
      await page.getByText(/^(?:Everything is where it should be|Nothing to plan)$/).waitFor()
    })
    await clicks.task('Give a guest a key with a daily limit', async () => {
      await clicks.view('Customers')
      await button('Add a customer').click()
      await clicks.type(field('Name'), 'Visitor')
      await clicks.type(field('Tokens a day'), '2000')
      await clicks.type(field('Reason'), 'for the weekend')
      await send('Create')
      await button('Copy Gateway key').click()
      await clicks.enter(button('Done'))
      await row(/Visitor.*2,000/).waitFor()
    })
    await clicks.task('Raise a limit of a customer', async () => {
      await clicks.view('Customers')
      await page.getByRole('link', { name: 'Visitor', exact: true }).click()
      await button('Whole policy Visitor').click()
      await clicks.type(field('Requests a minute'), '600')
      await clicks.type(field('Requests at the same time'), '20')
      await clicks.type(field('Tokens a day'), '90000')
      await clicks.type(field('Reason'), 'a busy week')
      await send('Save')
      await page.locator('.figure', { hasText: 'Tokens a day' }).getByText('90,000').waitFor()
    })
    await clicks.task('Issue a key that works on public nodes', async () => {
      // The account may, and the new key has to be told.
      await gateway.admin('PATCH', customer(), { gateway_policy_changes: { min_privacy_class: 'public' } })
      await clicks.view('Customers')
      await page.getByRole('link', { name: 'reader', exact: true }).click()
      await button('New key').click()
      await clicks.type(field('Name'), 'traveller')
      await clicks.type(field('Prompts may go to'), 'own nodes and all')
      await dialog()
        .getByText(/^The key reaches/)
        .waitFor()
      await clicks.type(field('Reason'), 'for the road')
      await send('Issue')
      const key = (await dialog().locator('.secret code').first().textContent()) ?? ''
      expect(await ask(key, 'shared')).toBe(200)
      await button('Copy Gateway key').click()
      await clicks.enter(button('Done'))
      await closed()
    })
    await clicks.task('Set a price that somebody else has just changed', async () => {
      await clicks.view('Models')
      await button(`Edit ${priced}`).click()
      await clicks.type(field('Price of a million prompt tokens'), '0.000000000006')
      await gateway.admin('PATCH', '/v1/admin/models', { id: priced, prompt_token_price_wei: '7' })
      await send('Save')
      await dialog()
        .getByRole('row', { name: /Price of a million prompt tokens.*5.*7.*6/ })
        .waitFor()
      await dialog().getByRole('button', { name: 'Save mine all the same' }).click()
      await closed()
      const { models: listed } = await gateway.admin<AdminModelList>('GET', '/v1/admin/models')
      expect(listed.find(({ id }) => id === priced)?.prompt_token_price_wei).toBe('6')
    })
    await clicks.task('What did last month cost, per customer?', async () => {
      await clicks.view('Money')
      await row(/^reader/).waitFor()
      const asked = page.waitForRequest(/billing\/costs\?by=customer/)
      await clicks.pick(page.getByLabel('In', { exact: true }), '1')
      const from = new Date(new URL((await asked).url()).searchParams.get('from') ?? '')
      expect(from.getUTCMonth()).toBe((new Date().getUTCMonth() + 11) % 12)
      await page.getByText('Nothing was paid').waitFor()
    })
    await clicks.task('Pay out what nodes have earned', async () => {
      await clicks.view('Money')
      await button('Pay out now').click()
      await dialog()
        .getByText(/^1 payout of 0\.225/)
        .waitFor()
      await clicks.type(field('Reason'), 'end of the month')
      await clicks.type(field(/to confirm/), 'pay out')
      await send('Pay out now')
      await page.getByRole('region', { name: 'Payout batches' }).getByText('created').first().waitFor()
    })
    await clicks.task('Where is this mixture in its statechart?', async () => {
      await clicks.view('Statecharts')
      await page.getByRole('link', { name: /^Mixture/ }).click()
      await page.getByRole('group', { name: 'List of instances' }).getByRole('link').first().click()
      await page.locator('.statechart[data-machine=mixture] .lit').first().waitFor()
    })

    const said = [
      ...readFileSync(join(import.meta.dir, '../../docs/operations/run.md'), 'utf8').matchAll(
        /^\| ([A-Z][^|]+[^ |]) \| ([0-9]+) \| ([0-9]+) \|$/gm,
      ),
    ]
    expect(said.map(([, name, each]) => [name, Number(each)])).toEqual([...clicks.taken])
    for (const [, , each, most] of said) expect(Number(each)).toBeLessThanOrEqual(Number(most))
    expect(console.faults).toEqual([])
  })
})
