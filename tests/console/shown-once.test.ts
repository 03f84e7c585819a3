import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'

const slowMs = 60_000

describe.skipIf(!hasBrowser)('§16: what an act leaves in the page', () => {
  let gateway: TestGateway
  let browser: Browser
  let console: ConsolePage
  let page: Page
  beforeAll(async () => {
    gateway = await startTestGateway()
    browser = await launchBrowser()
    console = await openConsole(browser, gateway.url)
    page = console.page
    await console.signIn(gateway.tokens.admin)
  }, slowMs)
  afterAll(async () => {
    await browser?.close()
    await gateway?.stop()
  })
  const dialog = () => page.getByRole('dialog')
  const add = async (name: string) => {
    await console.show('Customers')
    await page.getByRole('button', { name: 'Add a customer' }).click()
    await dialog().getByLabel('Name').fill(name)
    await dialog().getByLabel('Reason').fill('a guest')
    await dialog().getByRole('button', { name: 'Create' }).click()
  }

  test(
    'one person’s last act, and the form that stood open, are gone for the next who signs in',
    async () => {
      await add('First guest')
      await dialog().getByRole('button', { name: 'Done' }).click()
      await page.getByText('The customer is added.').waitFor()
      await page.getByRole('button', { name: 'Add a customer' }).click()
      await dialog().waitFor()
      await page.evaluate("location.hash = '#pool'")
      // The dialog keeps the mouse from the button, as it does when the gateway ends the session by itself.
      await page.evaluate("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Sign out').click()")
      await console.signIn(gateway.tokens.operator)
      expect(await page.getByText('The customer is added.').count()).toBe(0)
      expect(await dialog().count()).toBe(0)
      await page.getByRole('button', { name: 'Sign out' }).click()
      await console.signIn(gateway.tokens.admin)
    },
    slowMs,
  )
})
