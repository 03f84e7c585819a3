import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { lookAt } from '../../src/console/views/now/look-at.ts'
import { ownRules } from '../../src/machines/alerts/rules.ts'
import { minuteMs, secondMs } from '../../src/time.ts'
import { hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { VirtualClock } from '../support/run/virtual-clock.ts'

test('the page says where to look only for rules that the gateway evaluates', () => {
  const names = new Set<string>(ownRules.map(({ name }) => name))
  expect(Object.keys(lookAt).filter((name) => !names.has(name))).toEqual([])
})

describe.skipIf(!hasBrowser)('alerts on the first page', () => {
  const clock = new VirtualClock()
  let gateway: TestGateway
  let browser: Browser
  beforeAll(async () => {
    gateway = await startTestGateway({ alertClock: clock })
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await gateway?.stop()
  })

  test('a rule that holds is not yet an alert, then one with what helps and where to look; what cannot be seen from inside is named', async () => {
    await clock.pass(15 * secondMs)
    const console = await openConsole(browser, gateway.url)
    const { page } = console
    await console.signIn(gateway.tokens.viewer)
    await console.show('Now')
    const problems = page.getByRole('region', { name: 'Problems' })
    await problems.getByText('Not for long enough to be an alert: No node takes work.').waitFor()
    await problems.getByText('23 of 25 rules are evaluated here.').waitFor()
    await problems.getByText('Rules that this gateway does not evaluate').click()
    await problems.getByText(/PenstockDown: .* A gateway that does not answer cannot say so\./).waitFor()

    for (let passed = 0; passed < 2 * minuteMs; passed += 15 * secondMs) await clock.pass(15 * secondMs)
    await page.reload()
    const alert = problems.getByRole('list', { name: 'Alerts' }).getByRole('listitem')
    await alert.filter({ hasText: /^critical No node takes work PenstockNoReadyNode/ }).waitFor()
    await alert.getByText(/What helps: \.\/penstock nodes list; nodes show NODE_ID has the last error/).waitFor()
    expect(await console.violations()).toEqual([])
    const help = await alert.getByRole('link', { name: 'All alerts' }).getAttribute('href')
    expect(help).toBe(`${gateway.url}/docs/operations/observe#alerts`)
    await alert.getByRole('link', { name: 'Look at the pool' }).click()
    await page.getByRole('heading', { name: 'Pool', level: 1 }).waitFor()
    expect(console.faults).toEqual([])
    await console.close()
  })
})
