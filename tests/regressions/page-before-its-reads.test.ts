import { describe, expect, test } from 'bun:test'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import { hourMs, minuteMs } from '../../src/time.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
await gateway.customer()
const nowMs = Date.now()
await keepRequestRecords(gateway.database.db, new Date(nowMs - hourMs), new Date(nowMs), new Date(0))
await insertRequests(
  gateway.database.sql,
  `select 'req_' || lpad('1', 26, '0'), to_timestamp(${nowMs / 1_000}) - interval '1 minute', 'cus_1', null, 'chat', true, 'm', null, 1, 0, null, 2,
    100, 4000, 10, 20, null, 200, null, null, null, null`,
)
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('a page that is quicker than what it reads', () => {
  /**
   * Who added a node before the owners were read got a form that asked for the id of one; who typed a name into a filter before the
   * names were read got the requests of nobody. A view of the last hour was empty for a moment whenever the hour moved on.
   */
  test('opens no form and takes no filter before the names for it are there, and keeps an hour until the next is read', async () => {
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await page.clock.install()
    let goOn = Promise.withResolvers<void>()
    const held = ['**/v1/admin/customers?*', '**/v1/admin/traffic*']
    for (const path of held) {
      await page.route(path, async (route) => {
        await goOn.promise
        await route.continue()
      })
    }
    await console.signIn(gateway.tokens.operator)
    const button = (name: string, disabled: boolean) =>
      page.getByRole('button', { name, exact: true, disabled }).first().waitFor()
    for (const name of ['Add a node', 'Enrol a computer']) await button(name, true)
    await console.show('Requests')
    await button('Filter', true)
    goOn.resolve()
    await button('Filter', false)
    await console.show('Pool')
    await page.getByRole('button', { name: 'Add a node' }).click()
    await page.getByRole('dialog').getByLabel('Owner').locator('option').first().waitFor({ state: 'attached' })
    await page.keyboard.press('Escape')

    await console.show('Now')
    const one = page.locator('.figure', { hasText: /^Requests1 / })
    await one.waitFor()
    goOn = Promise.withResolvers()
    const next = page.waitForRequest(/admin\/traffic\?/)
    await page.clock.fastForward(minuteMs)
    await next
    // What is drawn of the hour that moved on is drawn before its read comes back.
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))')
    expect(await one.count()).toBe(1)
    goOn.resolve()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    expect(console.faults).toEqual([])
    await console.close()
  })
})
