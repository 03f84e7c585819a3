import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { type ConsolePool, nodeNames, startConsolePool } from '../support/console/console-pool.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { scoped } from '../support/run/fixture.ts'

/** Another secret, whatever the last letter of this one is. */
const almost = (secret: string) => secret.slice(0, -1) + (secret.endsWith('x') ? 'y' : 'x')
const stored = (console: ConsolePage) =>
  console.page.evaluate('JSON.stringify([localStorage, document.cookie, location.href, history.state])')

describe.skipIf(!hasBrowser)('who may do what', () => {
  let pool: ConsolePool
  let browser: Browser
  let consoles: SharedConsoles
  beforeAll(async () => {
    pool = await startConsolePool()
    browser = await launchBrowser()
    consoles = new SharedConsoles(browser, pool.gateway)
  })
  afterAll(async () => {
    await browser.close()
    await pool.stop()
  })
  const stateOf = async (at: number) => {
    const node = await pool.gateway.admin<{ admin_state: string }>('GET', `/v1/admin/nodes/${pool.nodeIds[at]}`)
    return node.admin_state
  }

  test('a wrong token sees nothing, is told so, and is not kept', async () => {
    const console = await openConsole(browser, pool.gateway.url)
    const { page } = console
    const wrong = almost(pool.gateway.tokens.admin)
    await page.getByLabel('Role token').fill(wrong)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByRole('alert').textContent()).toContain('not valid')
    const text = (await page.textContent('body')) ?? ''
    for (const name of nodeNames) expect(text).not.toContain(name)
    expect(await page.getByRole('navigation').count()).toBe(0)
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    expect(await console.violations()).toEqual([])
    await console.close()
  })

  test('a viewer looks and cannot touch: no button, no address, and the gateway refuses all the same', async () => {
    const { viewer } = pool.gateway.tokens
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await page.getByRole('button', { name: 'rack-1', exact: true }).click()
      await page.getByText('model server').waitFor()
      expect(await page.getByRole('button', { name: /Drain|Resume|Revoke/ }).count()).toBe(0)
      expect(await page.textContent('main')).not.toContain(pool.nodes[0]?.url ?? '')
      const refused = await fetch(`${pool.gateway.url}/v1/admin/nodes/${pool.nodeIds[0]}/drain`, {
        method: 'POST',
        headers: { 'x-svc-admin-token': viewer },
      })
      expect(refused.status).toBe(403)
      expect(await stateOf(0)).toBe('active')
    })
  })

  test('an operator drains and resumes by keyboard alone, and cannot revoke', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      expect(await page.getByRole('button', { name: /Revoke/ }).count()).toBe(0)
      await page.getByRole('button', { name: 'Drain rack-2' }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('dialog').waitFor()
      expect(await console.violations()).toEqual([])
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'hidden' })
      expect(await stateOf(1)).toBe('active')
      await page.getByRole('button', { name: 'Drain rack-2' }).focus()
      await page.keyboard.press('Enter')
      await page.getByLabel('Reason').focus()
      await page.keyboard.type('new fan')
      await page.getByRole('dialog').getByRole('button', { name: 'Drain', disabled: false }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('button', { name: 'Resume rack-2' }).waitFor()
      expect(await stateOf(1)).toBe('draining')
      await page.getByRole('button', { name: 'Resume rack-2' }).click()
      const resume = page.getByRole('dialog').getByRole('button', { name: 'Resume' })
      await page.getByLabel('Reason').fill('fan is in')
      await resume.click()
      await page.getByRole('button', { name: 'Drain rack-2' }).waitFor()
      expect(await stateOf(1)).toBe('active')
      expect(console.faults).toEqual([])
    })
  })

  test('revoking asks for a reason and the name, and the row stays as revoked', async () => {
    await consoles.as('admin', async (console) => {
      const { page } = console
      await page.getByRole('button', { name: 'More for workshop' }).click()
      await page.getByRole('button', { name: 'Revoke workshop' }).click()
      const button = page.getByRole('dialog').getByRole('button', { name: 'Revoke' })
      await page.getByLabel('Reason').fill('sold')
      const typed = page.getByLabel(/to confirm/)
      if ((await typed.count()) > 0) {
        expect(await button.isDisabled()).toBe(true)
        await typed.fill('workshop')
      }
      await button.click()
      const row = page.getByRole('row', { name: /workshop/ })
      await row.getByText('revoked').waitFor()
      expect(await row.getByRole('button', { name: /Drain|Revoke/ }).count()).toBe(0)
      expect(await stateOf(3)).toBe('revoked')
    })
  })

  test('tokens and keys stand in no address, no cookie and no lasting storage; signing out forgets', async () => {
    const { admin } = pool.gateway.tokens
    await consoles.as('admin', async (console) => {
      const { page } = console
      await console.show('Try it')
      await page.getByLabel('Gateway key').fill(pool.customer.key)
      await page.getByLabel('Model', { exact: true }).fill('llama-3.3-70b')
      for (const secret of [admin, pool.customer.key]) expect(String(await stored(console))).not.toContain(secret)
      expect(String(await page.evaluate('JSON.stringify(sessionStorage)'))).not.toContain(pool.customer.key)
      await page.getByLabel('Message').fill('a word for me alone')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByRole('region', { name: 'Trace of the answer' }).waitFor()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByLabel('Role token').waitFor()
      expect(await page.evaluate('sessionStorage.length')).toBe(0)
      await page.getByLabel('Role token').fill(admin)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await page.getByRole('heading', { level: 1, name: 'Try it' }).waitFor()
      expect(await page.getByLabel('Gateway key').inputValue()).toBe('')
      expect(await page.textContent('main')).not.toContain('a word for me alone')
    })
  })

  test('what happens shows by itself: a new node, a node that goes, a mixture that moves', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      pool.nodes[2]?.setFaults({ kind: 'refuse' })
      await page
        .getByRole('row', { name: /studio/ })
        .getByText('stale')
        .waitFor()
      pool.nodes[2]?.clearFaults()
      await page
        .getByRole('row', { name: /studio/ })
        .getByText('ready')
        .waitFor()
      await console.show('Statecharts')
      await page.getByRole('link', { name: /^Mixture/ }).click()
      await page.locator('.statechart[data-machine=mixture]').waitFor()
      const release = pool.hold()
      const { id, done } = pool.mixture()
      await page.locator('[data-state=expertsRunning].has-live').waitFor()
      expect(await page.locator('[data-count=expertsRunning]').textContent()).toBe('1')
      await page.locator(`a[href$="${await id}"]`).click()
      await page.locator('[data-state=expertsRunning].lit').waitFor()
      release()
      expect((await done).status).toBe(200)
      await page.locator('[data-state=succeeded].lit').waitFor()
      const history = page.locator('.history .history-state')
      expect(await history.allTextContents()).toEqual([
        'succeeded',
        'settling',
        'expertsRunning',
        'planning',
        'validating.admitting',
      ])
      expect(await page.locator('[data-count=expertsRunning]').textContent()).toBe('')
      expect(console.faults).toEqual([])
    })
  })

  test('try it streams without a mixture, can be stopped, and says why a request was refused', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await console.show('Try it')
      await page.getByLabel('Gateway key').fill(almost(pool.customer.key))
      await page.getByRole('alert').waitFor()
      await page.getByLabel('Gateway key').fill(pool.customer.key)
      await page.getByLabel('Model', { exact: true }).fill('llama-3.3-70b')
      pool.nodes[0]?.setAnswer({ firstTokenMs: 0, intervalMs: 1_000 })
      await page.getByLabel('Message').fill('hello')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.locator('.message.running', { hasText: 'Water' }).waitFor()
      const aborted = pool.nodes[0]?.nextAbort()
      await page.getByRole('button', { name: 'Stop' }).click()
      await aborted
      pool.nodes[0]?.setAnswer({ intervalMs: 0 })
      await page.getByLabel('Message').fill('again')
      // Until the page itself has ended the first answer, Enter sends nothing.
      await page.getByRole('button', { name: 'Send', disabled: false }).waitFor()
      await page.keyboard.press('Enter')
      await page.getByRole('region', { name: 'Trace of the answer' }).waitFor()
      await page.getByText('Why this node', { exact: true }).click()
      await page.getByText('chosen').waitFor()
      expect(console.faults).toEqual([])
    })
  })
})

describe.skipIf(!hasBrowser)('states that nobody hopes for', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser()
  })
  afterAll(() => browser.close())

  test('an empty pool says how to fill it; a lost gateway is named, and found again', async () => {
    await using first = await scoped(startTestGateway())
    // It is listened to twice, and between the two no other test may get it.
    const port = { SVC_PORT: String(freePort()) }
    const second = await startTestGateway({ beside: first, env: port })
    await using console = await scoped(openConsole(browser, second.url))
    const { page } = console
    await console.signIn(first.tokens.viewer)
    await page.getByText('No node yet').waitFor()
    await console.show('Jobs')
    await page.getByText('No private job yet').waitFor()
    await console.show('Pool')
    await page.getByText('No node yet').waitFor()
    expect(await console.violations()).toEqual([])
    await console.picture('console-empty-light')
    await second.stop()
    await page.getByText('Connection lost.').waitFor()
    expect(await page.getByText('No node yet').count()).toBe(1)
    expect(await console.violations()).toEqual([])
    await console.picture('console-lost-light')
    // A view that was open before shows what was known; one that was not says what it cannot read.
    await console.show('Jobs')
    await page.getByText('No private job yet').waitFor()
    await console.show('Money')
    await page.getByText('Payout batches could not be read').waitFor()
    expect(await console.violations()).toEqual([])
    await console.show('Pool')
    await page.getByText('No node yet').waitFor()
    const third = await startTestGateway({ beside: first, env: port })
    // The console may have found it by itself before anybody can press the button.
    const pressed = page.getByRole('button', { name: /^Try/ }).click()
    await Promise.race([pressed, page.getByText('Live', { exact: true }).waitFor()])
    pressed.catch(() => {})
    await page.getByText('Connection lost.').waitFor({ state: 'hidden' })
    await page.getByText('Live', { exact: true }).waitFor()
    await third.stop()
  })

  test('a part that cannot be read says so, with the request id, and is read again', async () => {
    await using gateway = await scoped(startTestGateway())
    await using console = await scoped(openConsole(browser, gateway.url))
    const { page } = console
    let broken = true
    await page.route('**/v1/admin/machines', (route) =>
      broken
        ? route.fulfill({
            status: 503,
            headers: { 'x-request-id': 'req_X' },
            json: { code: 'service_unavailable', detail: 'The database is away' },
          })
        : route.continue(),
    )
    await console.signIn(gateway.tokens.viewer)
    await console.show('Statecharts')
    const alert = page.getByRole('alert')
    await alert.waitFor()
    expect(await alert.textContent()).toContain('The database is away req_X')
    expect(await console.violations()).toEqual([])
    broken = false
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('.statechart').waitFor()
  })
})
