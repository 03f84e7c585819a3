import { describe, expect, test } from 'bun:test'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { scoped } from '../support/run/fixture.ts'

/** Rows stand in the order of their need: one that moved lost the keyboard, and what was pressed next did nothing. */
describe.skipIf(!hasBrowser)('a row that moves', () => {
  test('keeps the keyboard: what has it before has it after, in whichever row', async () => {
    await using pool = await scoped(startConsolePool({ SVC_POLL_INTERVAL_MS: '200' }))
    await using browser = await scoped(launchBrowser())
    const console = await openConsole(browser, pool.gateway.url)
    const { page } = console
    await console.signIn(pool.gateway.tokens.operator)
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
    expect(console.faults).toEqual([])
  })
})
