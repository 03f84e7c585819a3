import { describe, expect, test } from 'bun:test'
import type { Customer } from '../../src/protocol/wire/admin/accounts.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const browser = await fixture(launchBrowser())
const made = await gateway.admin<{ readonly customer_id: string }>('POST', '/v1/admin/customers', {
  display_name: 'Payer',
})
const customer = made.customer_id
await gateway.admin('POST', `/v1/admin/customers/${customer}/credits`, { amount_wei: '1000' })

describe.skipIf(!hasBrowser)('receipts on hold', () => {
  const hold = (amountWei: bigint) =>
    payFor(gateway.database, { customerId: customer, nodeId: 'node_a', amountWei, held: true })
  const statusOf = async (hash: string) => {
    const [row] = await gateway.database.sql`select status from receipts where receipt_hash = ${hash}`
    return row?.status
  }
  const balance = async () => (await gateway.admin<Customer>('GET', `/v1/admin/customers/${customer}`)).balance_wei

  test('an admin releases one and rejects another by a click, from one list; a viewer sees them without a customer or a button', async () => {
    const [paid, refused] = [await hold(300n), await hold(200n)]
    expect(await balance()).toBe('500')
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await console.signIn(gateway.tokens.admin)
    await console.show('Money')
    const rows = page.getByRole('region', { name: 'Receipts on hold', exact: true }).getByRole('row')
    const rowOf = (amount: string) => rows.filter({ has: page.getByTitle(amount, { exact: true }) })
    await rowOf('300 wei').waitFor()
    expect(await console.violations()).toEqual([])

    await rowOf('300 wei')
      .getByRole('button', { name: /^Release/ })
      .click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel(/Type release/).fill('release')
    await dialog.getByLabel('Reason').fill('it can be')
    await dialog.getByRole('button', { name: 'Release' }).click()
    await waitFor('the release', async () => (await statusOf(paid)) === 'accepted')
    await rowOf('300 wei').waitFor({ state: 'detached' })

    await rowOf('200 wei').getByRole('button', { name: /^More/ }).click()
    await page.getByRole('button', { name: /^Reject and refund/ }).click()
    await dialog.getByLabel(/Type reject/).fill('reject')
    await dialog.getByLabel('Reason').fill('it cannot be')
    await dialog.getByRole('button', { name: 'Reject and refund' }).click()
    await waitFor('the refund', async () => (await balance()) === '700')
    expect(await statusOf(refused)).toBe('rejected')
    await page.getByText('None. A receipt is held when its node claims').waitFor()
    await hold(100n)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await console.signIn(gateway.tokens.viewer)
    await console.show('Money')
    const held = page.getByRole('region', { name: 'Receipts on hold', exact: true })
    await rowOf('100 wei').waitFor()
    expect(await held.getByRole('button', { name: /Release|More/ }).count()).toBe(0)
    expect(await held.getByRole('columnheader', { name: 'Customer' }).count()).toBe(0)
    expect(await console.violations()).toEqual([])
    expect(console.faults).toEqual([])
    await console.close()
  })
})
