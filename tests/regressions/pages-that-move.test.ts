import { describe, expect, test } from 'bun:test'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import { hourMs, minuteMs } from '../../src/time.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'

const pool = await fixture(startConsolePool({ SVC_POLL_INTERVAL_MS: '200' }))
const { gateway } = pool
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, gateway))

describe.skipIf(!hasBrowser)('a page that moves below the hands of a person', () => {
  /** Rows stand in the order of their need: one that moved lost the keyboard, and what was pressed next did nothing. */
  test('a row that moves keeps the keyboard: what has it before has it after, in whichever row', () =>
    consoles.as('operator', async ({ page, faults }) => {
      for (const [at, name] of ['rack-1', 'rack-2'].entries()) {
        await page.getByRole('button', { name: `Drain ${name}` }).focus()
        pool.nodes[at]?.setFaults({ kind: 'refuse' })
        const row = page.getByRole('row', { name: new RegExp(name) })
        await row.getByText('stale').waitFor()
        expect(await page.evaluate('document.activeElement.textContent')).toBe(`Drain ${name}`)
        pool.nodes[at]?.clearFaults()
        await row.getByText('ready').waitFor()
        expect(await page.evaluate('document.activeElement.textContent')).toBe(`Drain ${name}`)
        await page.keyboard.press('Enter')
        await page.getByRole('dialog', { name: `Drain ${name}` }).waitFor()
        await page.keyboard.press('Escape')
        await page.getByRole('dialog').waitFor({ state: 'hidden' })
      }
      expect(faults).toEqual([])
    }))

  /** A browser tells that a form was closed a frame later. By then the same form was open again, and was taken away. */
  test('a form that is closed opens again within the same frame, empty', () =>
    consoles.as('operator', async ({ page, faults }) => {
      await page.getByRole('button', { name: 'Drain rack-2' }).click()
      await page.getByLabel('Reason').fill('new fan')
      await page.evaluate(`new Promise((resolve) => {
          document.querySelector('dialog').close()
          const buttons = [...document.querySelectorAll('main button')]
          buttons.find((button) => button.textContent === 'Drain rack-2').click()
          requestAnimationFrame(() => requestAnimationFrame(resolve))
        })`)
      await page.getByRole('dialog', { name: 'Drain rack-2' }).waitFor()
      expect(await page.getByLabel('Reason').inputValue()).toBe('')
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'hidden' })
      expect(faults).toEqual([])
    }))

  /** What another operator has done to a node stood in its row half a minute later, when the list was read again. */
  test('the buttons of a node follow what another operator has done to it, before the list is read again', () =>
    consoles.as('operator', async ({ page, faults }) => {
      await page.getByRole('button', { name: 'Drain rack-2' }).waitFor()
      await page.route('**/v1/admin/nodes?*', () => {})
      await gateway.admin('POST', `/v1/admin/nodes/${pool.nodeIds[1]}/drain`)
      await page.getByRole('button', { name: 'Resume rack-2' }).waitFor()
      await gateway.admin('POST', `/v1/admin/nodes/${pool.nodeIds[1]}/resume`)
      await page.getByRole('button', { name: 'Drain rack-2' }).waitFor()
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      expect(faults).toEqual([])
    }))

  /**
   * A part of a view that appeared while the address moved on listened too late: it showed the address before, until the next one.
   * Here the address moves as soon as the nodes are on the page, before anything else of the page runs.
   */
  const movesOn = `new MutationObserver((_, watching) => {
    if (document.querySelector('.map-choices') === null) return
    watching.disconnect()
    history.replaceState(null, '', '#pool?form=map')
    dispatchEvent(new HashChangeEvent('hashchange'))
  }).observe(document, { subtree: true, childList: true })`

  test('an address that moves on while a part of the page appears is not missed', () =>
    consoles.as('operator', async (console) => {
      await console.show('Models')
      await console.page.evaluate(movesOn)
      await console.page.evaluate("location.hash = '#pool'")
      await console.page.getByRole('region', { name: /^Map of the nodes/ }).waitFor()
      expect(console.faults).toEqual([])
    }))

  /**
   * Who added a node before the owners were read got a form that asked for the id of one; who typed a name into a filter before the
   * names were read got an empty list. A view of the last hour was empty for a moment whenever the hour moved on.
   */
  test('opens no form and takes no filter before the names for it are there, and keeps an hour until the next is read', async () => {
    const nowMs = Date.now()
    await keepRequestRecords(gateway.database.db, new Date(nowMs - hourMs), new Date(nowMs), new Date(0))
    await insertRequests(
      gateway.database.sql,
      `select 'req_' || lpad('1', 26, '0'), to_timestamp(${nowMs / 1_000}) - interval '1 minute', 'cus_1', null, 'chat', true, 'm', null, 1, 0,
        null, 2, 100, 4000, 10, 20, null, 200, null, null, null, null`,
    )
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
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))')
    expect(await one.count()).toBe(1)
    goOn.resolve()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    expect(console.faults).toEqual([])
    await console.close()
  })
})
