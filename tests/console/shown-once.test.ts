import { beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('§16: what an act leaves in the page', () => {
  let console: ConsolePage
  let page: Page
  beforeAll(async () => {
    console = await openConsole(browser, gateway.url)
    page = console.page
    await console.signIn(gateway.tokens.admin)
  })
  const dialog = () => page.getByRole('dialog')
  const add = async (name: string) => {
    await console.show('Customers')
    await page.getByRole('button', { name: 'Add a customer' }).click()
    await dialog().getByLabel('Name').fill(name)
    await dialog().getByLabel('Reason').fill('a guest')
    await dialog().getByRole('button', { name: 'Create' }).click()
  }

  test('one person’s last act, and the form that stood open, are gone for the next who signs in', async () => {
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
  })

  test('an account whose first key is refused stands: its secrets are shown, and no second one is made', async () => {
    const refusal = { status: 429, contentType: 'application/problem+json', body: '{"detail":"Too many requests"}' }
    await page.route('**/customers/*/keys', (route) => route.fulfill(refusal), { times: 1 })
    await add('Second guest')
    await dialog().getByText('Shown only this once').waitFor()
    const secrets = await dialog().locator('.secret').allTextContents()
    expect(secrets).toEqual([
      expect.stringMatching(/^Customer token.*svc_customer_/),
      expect.stringMatching(/^Webhook secret.*whsec_/),
    ])
    const alert = await dialog().getByRole('alert').textContent()
    expect(alert).toContain('It has no key yet: Too many requests. Issue one on the page of the customer.')
    expect(await console.violations()).toEqual([])
    await dialog().getByRole('button', { name: 'Done' }).click()
    await page.getByRole('row', { name: /Second guest/ }).waitFor()
    expect(await page.getByRole('row', { name: /Second guest/ }).count()).toBe(1)
  })

  test('nobody leaves a form while its key is made: Escape and Cancel wait for what is shown once', async () => {
    const asked = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    await page.route(
      '**/customers/*/keys',
      async (route) => {
        asked.resolve()
        await goOn.promise
        await route.continue()
      },
      { times: 1 },
    )
    await add('Third guest')
    await asked.promise
    await dialog().getByRole('button', { name: 'Working…' }).waitFor()
    expect(await dialog().getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true)
    for (let press = 0; press < 3; press++) await page.keyboard.press('Escape')
    // The browser has closed it at the second Escape without asking; it comes back at once.
    await dialog().waitFor()
    goOn.resolve()
    await dialog().getByText('Shown only this once').waitFor()
    expect(await dialog().locator('.secret code').first().textContent()).toMatch(/^svc_gateway_/)
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
    expect(console.faults).toEqual([])
  })
})
