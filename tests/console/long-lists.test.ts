import { describe, expect, test } from 'bun:test'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const shownMax = 1_000

const gateway = await fixture(startTestGateway())
await gateway.database.sql`
      insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
      select 'cus_' || lpad(n::text, 26, '0'), 'Customer ' || n, n::text::bytea, '\\x02'
      from generate_series(1, ${shownMax + 1}) n`
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('lists that are longer than what is shown', () => {
  test('§13, §3: balances and customers can be searched and sorted, and say where they are cut', async () => {
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await console.signIn(gateway.tokens.operator)
    const cut = page.getByText('At most 1,000 are shown here: the newest customers.')
    await console.show('Money')
    await cut.waitFor()
    await page.getByRole('searchbox', { name: 'Find in balances of customers' }).fill('customer 1001')
    await page.getByText('1 of 1,000', { exact: true }).waitFor()
    expect(await page.getByRole('row').filter({ hasText: 'Customer 1001' }).count()).toBe(1)
    await console.show('Customers')
    await cut.waitFor()
    await gateway.database.sql`delete from customers where display_name = 'Customer 1' or display_name = 'Customer 2'`
    await page.reload()
    await page.getByRole('link', { name: 'Customer 1001', exact: true }).waitFor()
    expect(await cut.count()).toBe(0)
    expect(await console.violations()).toEqual([])
    expect(console.faults).toEqual([])
    await console.close()
  })
})
