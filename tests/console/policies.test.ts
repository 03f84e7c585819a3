import { beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Customer, Key, KeyList } from '../../src/protocol/wire/admin/accounts.ts'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'

const pool = await fixture(startConsolePool())
const customer = `/v1/admin/customers/${pool.customer.customerId}`
await pool.gateway.admin('PATCH', customer, { display_name: 'Ada' })
await pool.gateway.admin('POST', `${customer}/credits`, { amount_wei: '1000000' })
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('every action by a click', () => {
  let console: ConsolePage
  let page: Page
  beforeAll(async () => {
    console = await openConsole(browser, pool.gateway.url)
    page = console.page
    await console.signIn(pool.gateway.tokens.admin)
  })

  const dialog = () => page.getByRole('dialog')
  const press = (name: string) => dialog().getByRole('button', { name, exact: true }).click()
  const closed = () => page.locator('dialog').waitFor({ state: 'detached' })
  const says = (text: string | RegExp) => dialog().getByRole('status').getByText(text).waitFor()
  const reason = (text: string) => dialog().getByLabel('Reason').fill(text)
  const good = async () => {
    expect(await console.violations()).toEqual([])
    expect(console.faults).toEqual([])
  }
  const account = async () => (await pool.gateway.admin<Customer>('GET', customer)).gateway_policy

  test('the whole policy of an account is looked at before it is saved, and put back', async () => {
    await console.show('Customers')
    await page.getByRole('link', { name: 'Ada' }).click()
    const before = await account()
    await page.getByRole('button', { name: 'Whole policy Ada' }).click()
    await says('This account reaches 4 models on 4 nodes now, and as many after the change.')
    await good()
    await dialog().getByLabel('Models ', { exact: false }).first().fill('llama-*, qwen3-32b')
    await says(
      /reaches 4 models on 4 nodes now, and 2 models on 2 nodes after the change. It loses gemma-3-27b, mistral-small\./,
    )
    await dialog().getByLabel('Nodes').last().fill('rack-1')
    await says(/and 1 model on 1 node after the change/)
    await dialog().getByLabel('Requests a minute').fill('60')
    await dialog().getByLabel('Requests at the same time').fill('4')
    await dialog().getByLabel('Mixtures').selectOption('refused')
    await reason('a guest')
    await press('Save')
    await closed()
    expect(await account()).toEqual({
      ...before,
      allowed_models: ['llama-*', 'qwen3-32b'],
      node_scope: [pool.nodeIds[0] ?? ''],
      rate_limit_rpm: 60,
      max_concurrency: 4,
      mixture: { enabled: false, max_experts: 16 },
    })
    await page.getByRole('button', { name: 'Undo' }).click()
    await reason('no guest')
    await press('Save')
    await closed()
    expect(await account()).toEqual(before)
    await good()
  })

  test('a key is issued with a policy and an end, edited, and shows what somebody else has made of it', async () => {
    const keyNow = async () => {
      const { keys } = await pool.gateway.admin<KeyList>('GET', `${customer}/keys`)
      return keys.find(({ name }) => name.startsWith('phone')) as Key
    }
    await page.getByRole('button', { name: 'New key' }).click()
    await dialog().getByLabel('Name').fill('phone')
    await says('The key reaches 4 models on 4 nodes.')
    await dialog().getByLabel('Not these models').fill('gemma-*')
    await dialog().getByLabel('Priority').fill('0')
    await dialog().getByLabel('Ends').fill('2100-05-06T07:08')
    await says('The key reaches 3 models on 3 nodes.')
    await reason('a guest')
    await press('Issue')
    await press('Done')
    await closed()
    const issued = await keyNow()
    expect(issued).toMatchObject({ model_policy: { denied_models: ['gemma-*'], priority: 0 }, node_scope: null })
    expect(new Date(issued.expires_at ?? '').getFullYear()).toBe(2100)
    await page.getByRole('button', { name: 'Edit phone' }).click()
    await says('This key reaches 3 models on 3 nodes now, and as many after the change.')
    await dialog().getByLabel('Not these models').fill('')
    await dialog().getByLabel('Ends').fill('')
    await says(/and 4 models on 4 nodes after the change. It gains gemma-3-27b\./)
    await pool.gateway.admin('PATCH', `/v1/admin/keys/${issued.key_id}`, { model_policy_changes: { priority: 7 } })
    await reason('for good')
    await press('Save')
    await dialog().getByText('Somebody has changed this since you opened the form.').waitFor()
    const [row] = await dialog().locator('.conflict tbody tr').all()
    expect((await row?.locator('th, td').allTextContents())?.join(' | ')).toBe('Priority | 0 | 7 | not changed')
    await good()
    await press('Save mine all the same')
    await closed()
    expect(await keyNow()).toMatchObject({ model_policy: { priority: 7 }, expires_at: null })
  })

  test('what destroys something stands in a menu, which the keyboard opens and Escape closes', async () => {
    expect(await page.getByRole('button', { name: /^(Revoke|Rotate|Suspend|Take credit back)/ }).count()).toBe(0)
    const menu = page.getByRole('button', { name: 'More for phone' })
    await menu.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Rotate phone' }).waitFor()
    await good()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Rotate phone' }).waitFor({ state: 'detached' })
    await menu.click()
    await page.getByRole('button', { name: 'Revoke phone' }).click()
    await dialog()
      .getByLabel(/to confirm/)
      .fill('phone')
    await reason('lost')
    await press('Revoke')
    await closed()
    const revoked = page.getByRole('row', { name: /phone/ })
    await revoked.getByText('revoked').waitFor()
    expect(await revoked.getByRole('button').count()).toBe(0)
  })

  test('a node is edited: class, rank, who may use it, where its earnings go', async () => {
    const node = () => pool.gateway.admin<Node>('GET', `/v1/admin/nodes/${pool.nodeIds[1]}`)
    await console.show('Pool')
    await page.getByRole('button', { name: 'Edit rack-2' }).click()
    await dialog().getByLabel('Class', { exact: false }).last().fill('gpu-large')
    await dialog().getByLabel('Rank').fill('3')
    await dialog().getByLabel('Visibility').selectOption('public')
    await dialog()
      .getByLabel('Payout address')
      .fill(`0x${'1'.repeat(40)}`)
    await good()
    await reason('a larger card')
    await press('Save')
    await closed()
    expect(await node()).toMatchObject({
      name: 'rack-2',
      node_class: 'gpu-large',
      rank: 3,
      visibility: 'public',
      payout_address: `0x${'1'.repeat(40)}`,
    })
    await page.getByRole('button', { name: 'Undo' }).click()
    await reason('the old one')
    await press('Save')
    await closed()
    expect(await node()).toMatchObject({ rank: 0, visibility: 'private', payout_address: null })
  })

  test('a drained node is given to another customer, after its name was typed, and its forms say how', async () => {
    const { gateway, nodeIds } = pool
    const { customerId } = await gateway.customer()
    await gateway.admin('PATCH', `/v1/admin/customers/${customerId}`, { display_name: 'Grace' })
    const node = () => gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeIds[2]}`)
    await console.show('Pool')
    await page.getByRole('button', { name: 'Edit studio' }).click()
    await dialog()
      .getByText(/To change the owner, drain the node/)
      .waitFor()
    await press('Cancel')
    await gateway.admin('POST', `/v1/admin/nodes/${nodeIds[2]}/drain`)
    await page.getByRole('button', { name: 'studio', exact: true }).click()
    await page.getByRole('button', { name: 'Change owner of studio' }).click()
    expect(await dialog().getByLabel('Owner').locator('option').allTextContents()).not.toContain('Ada')
    await reason('it was sold')
    await dialog()
      .getByLabel(/to confirm/)
      .fill('studio')
    const change = dialog().getByRole('button', { name: 'Change owner', exact: true })
    expect(await change.isDisabled()).toBe(true)
    await dialog().getByLabel('Owner').selectOption('Grace')
    await good()
    await press('Change owner')
    await closed()
    expect(await node()).toMatchObject({ customer_id: customerId, admin_state: 'draining', visibility: 'private' })
    await page.getByRole('definition').filter({ hasText: 'Grace' }).waitFor()
  })

  test('a receipt on hold is released, or rejected with a refund; pending payouts are paid out after a look at them', async () => {
    const { database } = pool.gateway
    const work = { customerId: pool.customer.customerId, nodeId: pool.nodeIds[0] ?? '', feeBps: 0 }
    const [released, rejected] = [
      await payFor(database, { ...work, amountWei: 300_000n, held: true }),
      await payFor(database, { ...work, amountWei: 200_000n, held: true }),
    ]
    await pool.gateway.admin('PATCH', `/v1/admin/nodes/${pool.nodeIds[0]}`, { payout_address: `0x${'2'.repeat(40)}` })
    const open = async (hash: string) => {
      await console.show('Requests')
      await page.getByLabel('Any id').fill(hash)
      await page.getByRole('button', { name: 'Open', exact: true }).click()
      await page.getByRole('heading', { name: 'Receipt' }).waitFor()
    }
    await open(released)
    await page.getByRole('button', { name: 'Release receipt' }).click()
    await dialog()
      .getByLabel(/to confirm/)
      .fill('release')
    await reason('seen')
    await press('Release')
    await closed()
    await page.getByText('accepted', { exact: true }).waitFor()
    await open(rejected)
    await page.getByRole('button', { name: 'More for receipt' }).click()
    await page.getByRole('button', { name: 'Reject and refund receipt' }).click()
    await dialog()
      .getByLabel(/to confirm/)
      .fill('reject')
    await reason('it cannot be')
    await press('Reject and refund')
    await closed()
    await page.getByText('rejected', { exact: true }).waitFor()
    expect((await pool.gateway.admin<Customer>('GET', customer)).balance_wei).toBe('700000')
    await console.show('Money')
    await page.getByLabel('Amounts in').selectOption('gwei')
    await page.getByRole('button', { name: 'Pay out now' }).click()
    await says(/^1 payout of 0\.000\d+ gwei in all\.$/)
    await good()
    await dialog()
      .getByLabel(/to confirm/)
      .fill('pay out')
    await reason('end of the month')
    await press('Pay out now')
    await closed()
    await page.getByRole('region', { name: 'Payout batches' }).getByText('created').first().waitFor()
    // The unit is chosen once, for all views and for the next visit.
    await console.show('Customers')
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Customers' }).waitFor()
    expect(await page.getByLabel('Amounts in').inputValue()).toBe('gwei')
    await page.getByRole('row', { name: /Ada/ }).getByText('0.0007', { exact: true }).waitFor()
    await good()
  })
})
