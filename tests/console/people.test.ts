import { describe, expect, test } from 'bun:test'
import type { AdminCreated, SessionList } from '../../src/protocol/wire/admin/operators.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, gateway))

describe.skipIf(!hasBrowser)('who is who', () => {
  const sessions = async () => (await gateway.admin<SessionList>('GET', '/v1/admin/sessions?limit=1000')).sessions
  const people = async (console: ConsolePage) => {
    await console.page.evaluate("location.hash = '#audit/people'")
    await console.page.getByRole('heading', { name: 'Named tokens' }).waitFor()
  }
  const stored = (console: ConsolePage) => console.page.evaluate<string>('JSON.stringify(sessionStorage)')

  test('a person gets a token of her own, signs in with it, and the audit calls what she does by her name', async () => {
    await consoles.as('admin', async (console) => {
      const { page } = console
      expect(await stored(console)).not.toContain(gateway.tokens.admin)
      await people(console)
      await page.getByText('No named token yet').waitFor()
      await page.getByRole('button', { name: 'New token' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Name').fill('Rosalind')
      await dialog.getByLabel('Role').selectOption('operator')
      await dialog.getByLabel('Reason').fill('on call')
      expect(await console.violations()).toEqual([])
      await dialog.getByRole('button', { name: 'Create' }).click()
      const token = String(await dialog.locator('code', { hasText: 'svc_operator_' }).first().textContent())
      await page.keyboard.press('Escape')
      await page
        .getByRole('cell', { name: /Rosalind/ })
        .or(page.getByRole('rowheader', { name: /Rosalind/ }))
        .first()
        .waitFor()
      expect(await console.violations()).toEqual([])

      const hers = await openConsole(browser, gateway.url)
      await hers.signIn(token)
      await hers.page.getByText('Rosalind · operator').waitFor()
      expect(await stored(hers)).not.toContain(token)
      await hers.page.evaluate("location.hash = '#audit/people'")
      await hers.page.getByText('An admin token shows who may do what').waitFor()
      await hers.page.getByRole('link', { name: 'Calls' }).click()
      await hers.page.getByText('Rosalind operator', { exact: true }).first().waitFor()
      expect(await hers.violations()).toEqual([])
      // Who did what: her name leads to all that she did, and the address keeps it.
      await hers.page.getByRole('link', { name: 'Rosalind' }).first().click()
      await hers.page.waitForFunction("location.hash.includes('actor=Rosalind')")
      const rows = hers.page.getByRole('table').locator('tbody tr')
      await waitFor('only her rows', async () => {
        const texts = await rows.allInnerTexts()
        return texts.length > 0 && texts.every((text) => text.includes('Rosalind'))
      })
      expect([...console.faults, ...hers.faults]).toEqual([])
      await hers.close()
    })
  })

  test('an admin ends the session of somebody else, whose page shows nothing more and says so', async () => {
    const { token } = await gateway.admin<AdminCreated>('POST', '/v1/admin/admins', { name: 'Guest', role: 'viewer' })
    const guest = await openConsole(browser, gateway.url)
    await guest.signIn(token)
    await consoles.as('admin', async (console) => {
      const { page } = console
      await people(console)
      await page.getByRole('button', { name: /More for the session of Guest/ }).click()
      await page.getByRole('button', { name: /^End the session of Guest/ }).click()
      await page.getByLabel('Reason').fill('she has gone home')
      await page.getByRole('dialog').getByRole('button', { name: 'End' }).click()
      await guest.page.getByText('Your session has ended. Sign in again.').waitFor()
      expect(await guest.page.getByRole('navigation').count()).toBe(0)
      expect(await guest.page.evaluate('sessionStorage.length')).toBe(0)
      expect(await guest.violations()).toEqual([])
      const row = page.getByRole('row', { name: /Guest.*OpenID|Guest.*role token/ })
      await row.getByText('ended', { exact: true }).waitFor()
      await guest.close()
    })
  })

  test('signing out ends the session at the gateway, too', async () => {
    const before = new Set((await sessions()).map(({ session_id: id }) => id))
    const console = await openConsole(browser, gateway.url)
    await console.signIn(gateway.tokens.viewer)
    const own = (await sessions()).find(({ session_id: id }) => !before.has(id))
    expect(own).toMatchObject({ state: 'open', role: 'viewer', name: null })
    await console.page.getByRole('button', { name: 'Sign out' }).click()
    await console.page.getByLabel('Role token').waitFor()
    await waitFor('the session to have ended', async () =>
      (await sessions()).some(({ session_id: id, end_reason: why }) => id === own?.session_id && why === 'signed_out'),
    )
    await console.close()
  })
})
