import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { NodeList } from '../../src/protocol/wire/admin/admin.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { payFor } from '../support/money/money.ts'
import { fixture } from '../support/run/fixture.ts'

/** No view has so many places where the keyboard stops. */
const stopsMax = 150

/** Where the keyboard is, in words, and whether somebody sees it. */
const focusScript = `(() => {
  const at = document.activeElement
  // Where a view begins, for those who hear the page: a Tab leads on from there.
  if (at === null || at === document.body || at.tagName === 'MAIN') return { name: '', seen: true }
  const labels = [...(at.labels ?? [])].map((label) => label.textContent)
  const name = [at.getAttribute('aria-label'), ...labels, at.textContent].filter(Boolean).join(' ')
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at)
  const seen = (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none'
  return { name: name.replace(/\\s+/g, ' ').trim(), seen }
})()`

/** A person with a keyboard and no pointer: nothing is focused but by Tab. */
class Keyboard {
  constructor(private readonly page: Page) {}

  /** Goes on to the next place that is called so, and shows where it is on its way. */
  async to(name: RegExp): Promise<void> {
    for (let stops = 0; stops < stopsMax; stops++) {
      const focus = await this.page.evaluate<{ readonly name: string; readonly seen: boolean }>(focusScript)
      expect([focus.name, focus.seen]).toEqual([focus.name, true])
      if (name.test(focus.name)) return
      await this.page.keyboard.press('Tab')
    }
    throw new Error(`the keyboard does not come to ${name}`)
  }

  async press(name: RegExp, key = 'Enter'): Promise<void> {
    await this.to(name)
    await this.page.keyboard.press(key)
  }

  async type(name: RegExp, text: string): Promise<void> {
    await this.to(name)
    await this.page.keyboard.type(text)
  }
}

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'] }))
const customer = await gateway.customer()
const id = await gateway.node(node.url, { customerId: customer.customerId })
await gateway.admin('PATCH', `/v1/admin/nodes/${id}`, { name: 'rack-1', reason: 'test' })
await gateway.admin('POST', `/v1/admin/customers/${customer.customerId}/credits`, { amount_wei: '1000' })
const held = await payFor(gateway.database, { ...customer, nodeId: id, amountWei: 300n, held: true })
const ask = { model: 'nobody-has-it', messages: [{ role: 'user', content: 'hi' }] }
await (await gateway.chat(customer.key, ask)).text()
const browser = await fixture(launchBrowser())

describe.skipIf(!hasBrowser)('without a pointer, and without movement', () => {
  const rack = async () =>
    (await gateway.admin<NodeList>('GET', '/v1/admin/nodes')).nodes.find(({ name }) => name === 'rack-1')

  test('the keyboard alone signs in, drains a node, finds what failed in the last hour, makes a customer with a key, decides on a receipt, and signs out', async () => {
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    const keyboard = new Keyboard(page)
    await keyboard.type(/^Role token/, gateway.tokens.admin)
    await page.keyboard.press('Enter')
    await page.getByRole('navigation', { name: 'Views' }).waitFor()

    await keyboard.press(/^Pool$/)
    await page.getByRole('heading', { level: 1, name: 'Pool' }).waitFor()
    await page.getByRole('button', { name: 'Drain rack-1' }).waitFor()
    await keyboard.press(/^Drain rack-1$/)
    await page.getByRole('dialog').waitFor()
    await keyboard.type(/^Reason/, 'new fan')
    await keyboard.press(/^Drain$/)
    await waitFor('the drain', async () => (await rack())?.admin_state === 'draining')
    await page.getByRole('dialog').waitFor({ state: 'hidden' })

    await keyboard.press(/^Requests$/)
    await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor()
    await keyboard.press(/^Failed$/)
    await page.waitForFunction('/outcome=failed/.test(location.hash)')
    await keyboard.press(/^Last hour$/)
    await page.waitForFunction('/outcome=failed/.test(location.hash) && /from=/.test(location.hash)')
    await page
      .getByRole('row', { name: /model_not_found/ })
      .first()
      .waitFor()

    await keyboard.press(/^Customers$/)
    await page.getByRole('button', { name: 'Add a customer' }).waitFor()
    await keyboard.press(/^Add a customer$/)
    await page.getByRole('dialog').waitFor()
    await keyboard.type(/^Name/, 'Guest')
    await keyboard.type(/^Reason/, 'a visit')
    await keyboard.press(/^Create$/)
    // It is asked twice, and as long as it works the keyboard goes in a circle.
    await page.getByRole('button', { name: 'Copy Gateway key' }).waitFor()
    await keyboard.press(/^Copy Gateway key$/, 'Space')
    await keyboard.press(/^Done$/)
    await page.getByRole('row', { name: /Guest/ }).waitFor()

    await keyboard.press(/^Money$/)
    await page.getByRole('region', { name: 'Receipts on hold', exact: true }).getByRole('row').nth(1).waitFor()
    await keyboard.press(/^Release/)
    await page.getByRole('dialog').waitFor()
    await keyboard.type(/^Type release/, 'release')
    await keyboard.type(/^Reason/, 'it can be')
    await keyboard.press(/^Release$/)
    await waitFor('the release', async () => {
      const [row] = await gateway.database.sql`select status from receipts where receipt_hash = ${held}`
      return row?.status === 'accepted'
    })

    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await keyboard.press(/^Sign out$/)
    await page.getByLabel('Role token').waitFor()
    expect(console.faults).toEqual([])
    await console.close()
  })

  /** What moves by itself or takes its time, as the styles have it now. */
  const moving = (page: Page) =>
    page.evaluate<readonly string[]>(`[...document.querySelectorAll('*')].flatMap((each) => {
      const { animationName, transitionDuration } = getComputedStyle(each)
      const slow = transitionDuration.split(',').some((text) => parseFloat(text) > 0)
      return animationName !== 'none' || slow ? [each.tagName + '.' + each.getAttribute('class')] : []
    })`)
  const views = ['Now', 'Pool', 'Models', 'Customers', 'Statecharts', 'Traffic', 'Requests', 'Money', 'Audit', 'Try it']

  test('nothing moves for somebody who wants less of it, in any view', async () => {
    const console = await openConsole(browser, gateway.url, { reducedMotion: 'reduce' })
    const { page } = console
    await console.signIn(gateway.tokens.admin)
    for (const view of views) {
      await console.show(view)
      if (view === 'Statecharts') await page.locator('.statechart').first().waitFor()
      expect([view, await moving(page)]).toEqual([view, []])
    }
    // It would be seen.
    await page.emulateMedia({ reducedMotion: 'no-preference' })
    await console.show('Statecharts')
    await page.locator('.statechart').first().waitFor()
    expect((await moving(page)).length).toBeGreaterThan(0)
    await console.close()
  })
})
