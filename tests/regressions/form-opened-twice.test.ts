import { describe, expect, test } from 'bun:test'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { scoped } from '../support/run/fixture.ts'

/** A browser tells that a form was closed a frame later. By then the same form was open again, and was taken away. */
describe.skipIf(!hasBrowser)('a form that is closed', () => {
  test('opens again within the same frame, empty', async () => {
    await using pool = await scoped(startConsolePool())
    await using browser = await scoped(launchBrowser())
    const console = await openConsole(browser, pool.gateway.url)
    const { page } = console
    await console.signIn(pool.gateway.tokens.operator)
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
    expect(console.faults).toEqual([])
  })
})
