import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import {
  type AxeRules,
  type ConsolePage,
  hasBrowser,
  launchBrowser,
  openConsole,
  pictures,
} from '../support/console/console.ts'
import { type ConsoleChain, startConsoleChain } from '../support/console/console-batches.ts'
import { type ConsolePool, models, startConsolePool } from '../support/console/console-pool.ts'
import { type ConsoleWork, startConsoleWork } from '../support/console/console-work.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { testLimitMs } from '../support/run/limits.ts'

const picturedMs = 75_000

describe.skipIf(!hasBrowser)('every view, in light and dark and on a phone', () => {
  let chain: ConsoleChain
  let pool: ConsolePool
  let work: ConsoleWork
  let browser: Browser
  beforeAll(async () => {
    chain = await startConsoleChain()
    pool = await startConsolePool({
      ...chain.env,
      // A batch that looks at its chain moves: seldom, so that the pictures show it at rest.
      SVC_SETTLEMENT_POLL_MS: '2000',
      SVC_STALE_AFTER_MS: '10000',
      SVC_OFFLINE_AFTER_MS: '12000',
      SVC_AUDIT_REVIEW_DENIED: '1',
    })
    work = await startConsoleWork(pool, chain)
    browser = await launchBrowser()
    for (const model of models) for (let i = 0; i < 3; i++) await pool.chat(model)
    await pool.chat('no-such-model')
    if (pictures) await pool.work(picturedMs)
    await (await pool.mixture().done).body?.cancel()
    const [, , , workshop] = pool.nodes
    workshop?.setFaults({ kind: 'refuse' })
    await pool.gateway.admin('POST', `/v1/admin/nodes/${pool.nodeIds[2]}/drain`, { reason: 'new fan' })
    await waitFor('the workshop to be away', async () => {
      const { state } = await pool.gateway.admin<{ state: string }>('GET', `/v1/admin/nodes/${pool.nodeIds[3]}`)
      return state === 'offline'
    })
  }, testLimitMs + picturedMs)
  afterAll(async () => {
    await browser?.close()
    await work?.stop()
    await pool?.stop()
    await chain?.stop()
  })

  /** Each goes from view to view once, and looks at every one of them in all of its colours. */
  const walks = [
    ['in light and dark', 1280, ['light', 'dark']],
    ['in light, on a phone', 390, ['light']],
  ] as const

  /** Runs in the page: until no colour is on its way to another any more. */
  const coloured = `Promise.allSettled(
    document.getAnimations().filter((each) => each instanceof CSSTransition).map(({ finished }) => finished))`

  /** What a screen of 1280 px shows at 200 %. */
  const doubled = { width: 640, height: 430 } as const

  async function fits(console: ConsolePage, view: string, rules: AxeRules = 'all'): Promise<void> {
    expect([view, await console.violations(rules)]).toEqual([view, []])
    const wide = await console.page.evaluate('document.documentElement.scrollWidth - innerWidth')
    expect([view, Number(wide) <= 0]).toEqual([view, true])
  }

  /**
   * Nothing wrong for axe, nothing wider than the page, nothing asked of another host; in the dark at 200 % too, where the colours are
   * those of the dark and the structure is that of the light.
   */
  async function good(console: ConsolePage, view: string, colorScheme: string): Promise<void> {
    await fits(console, view, colorScheme === 'dark' ? 'colours' : 'all')
    if (colorScheme === 'dark') {
      const size = console.page.viewportSize()
      await console.page.setViewportSize(doubled)
      await fits(console, `${view} at 200 %`, 'structure')
      if (size !== null) await console.page.setViewportSize(size)
    }
    expect([view, console.faults]).toEqual([view, []])
  }

  test.each(walks)(
    '%s, %i wide',
    async (_, width, colorSchemes) => {
      const phone = width < 600 ? '-phone' : ''
      const console = await openConsole(browser, pool.gateway.url, {
        colorScheme: colorSchemes[0],
        viewport: { width, height: phone === '' ? 860 : 780 },
      })
      const { page } = console
      let now: (typeof colorSchemes)[number] = colorSchemes[0]
      /** `picture`: what its pictures are called, where it has any. Begins in the colours of the view before: to change them takes time. */
      const look = async (view: string, picture: string | null = view) => {
        for (const colorScheme of now === colorSchemes[0] ? colorSchemes : colorSchemes.toReversed()) {
          if (colorScheme !== now) {
            await page.emulateMedia({ colorScheme })
            await page.evaluate(coloured)
            now = colorScheme
          }
          await good(console, view, colorScheme)
          if (picture !== null) await console.picture(`console-${picture}-${colorScheme}${phone}`)
        }
      }
      await look('sign-in')
      await console.signIn(pool.gateway.tokens.admin)

      await page.getByRole('button', { name: 'rack-1', exact: true }).click()
      await page.getByText('model server').waitFor()
      // What stands in an opened row scrolls by itself: the actions of all rows stay on the page.
      const frame = "document.querySelector('.table-frame')"
      expect(await page.evaluate(`${frame}.scrollWidth - ${frame}.clientWidth`)).toBe(0)
      // And on a wide screen all columns of its models are seen at once.
      const inner = "document.querySelector('.inner')"
      if (phone === '') expect(await page.evaluate(`${inner}.scrollWidth - ${inner}.clientWidth`)).toBe(0)
      expect(await page.getByLabel('Find in models of rack-1').count()).toBe(0)
      await look('pool')

      await page.getByRole('navigation', { name: 'Form' }).getByRole('link', { name: 'Map', exact: true }).click()
      await page.locator('.pool-map .tile').first().waitFor()
      await look('pool-map')

      await console.show('Now')
      await page.getByRole('listitem').filter({ hasText: 'model_not_found' }).waitFor()
      await page.getByText('nodes cannot answer').waitFor()
      await look('now')

      await console.show('Models')
      await page.getByRole('row', { name: /qwen3-32b/ }).waitFor()
      await look('models')

      await console.show('Plan')
      await page.getByText(/^(?:Everything is where it should be|Nothing to plan)$/).waitFor()
      await look('plan')

      await console.show('Customers')
      await page.getByRole('row', { name: /workshop/ }).waitFor()
      await look('customers', null)
      await page.getByRole('link', { name: 'workshop' }).click()
      await page.getByRole('heading', { name: 'Keys' }).waitFor()
      await look('customer')

      await console.show('Traffic')
      await page.getByRole('row', { name: /llama/ }).waitFor()
      await page.getByRole('img', { name: /^Requests, \d/ }).waitFor()
      await look('traffic')
      await page.getByRole('link', { name: '1 hour', exact: true }).click()
      await page.getByRole('group', { name: 'Nodes', exact: true }).getByRole('link', { name: 'rack-2' }).waitFor()
      await look('traffic of a range', 'traffic-range')

      await console.show('Requests')
      await page.getByRole('group', { name: 'Requests, newest first' }).waitFor()
      await page.getByRole('button', { name: 'Pause', exact: true }).click()
      await look('requests')
      await page
        .getByRole('row', { name: /200.*qwen3.*rack-2/ })
        .first()
        .getByRole('link')
        .click()
      await page.getByRole('heading', { name: 'Why this node' }).waitFor()
      await page.getByText('free work').waitFor()
      await look('request')
      await page.getByRole('link', { name: 'Its statechart' }).click()
      await page.locator('[data-state="settled.served"].lit').waitFor()
      await page.getByRole('button', { name: 'Fit' }).click()
      await look('statechart of a request', 'statecharts-request')

      await console.show('Statecharts')
      await page.locator('.statechart[data-machine=node]').waitFor()
      await page.getByRole('link', { name: /^rack-1/ }).click()
      await page.locator('[data-state=ready].lit').waitFor()
      await look('statecharts', 'statecharts-node')
      const release = pool.hold()
      const { id, done } = pool.mixture()
      await page.getByRole('link', { name: /^Mixture/ }).click()
      await page.locator(`a[href$="${await id}"]`).click()
      await page.locator('[data-state=expertsRunning].lit.has-live').waitFor()
      await look('mixture', 'statecharts-mixture')
      release()

      await page.getByRole('link', { name: /^Private job/ }).click()
      await page.locator(`a[href$="${work.runningCommand}"]`).click()
      await page.locator('[data-state=attending].lit.has-live').waitFor()
      await look('private job', 'statecharts-private-job')
      await page.getByRole('link', { name: /^Webhook delivery/ }).click()
      await page.locator(`a[href$="${work.webhookId}"]`).click()
      await page.locator('[data-state=retry_scheduled].lit.has-live').waitFor()
      await look('webhook delivery', 'statecharts-webhook-delivery')
      await page.getByRole('link', { name: /^Payout batch/ }).click()
      await page.locator(`a[href$="${work.batches?.submitted}"]`).click()
      await page.locator('[data-state=submitted].lit').waitFor()
      await page.locator('.chosen').getByRole('link').waitFor()
      await look('payout batch, submitted', 'statecharts-payout-batch')
      await page.locator(`a[href$="${work.batches?.completed}"]`).click()
      await page.locator('[data-state=completed].lit').waitFor()
      await look('payout batch, completed', 'statecharts-payout-batch-completed')

      await console.show('Jobs')
      await page
        .getByRole('row')
        .filter({ has: page.getByTitle(work.runningJob) })
        .getByText('running')
        .waitFor()
      await page.getByRole('region', { name: /^Webhooks/ }).waitFor()
      await look('jobs')

      await console.show('Money')
      await page.getByText(/^The books balance/).waitFor()
      await page.getByRole('region', { name: /^Payout batches/ }).waitFor()
      await page.getByRole('region', { name: /^Balances/ }).waitFor()
      await look('money')

      await console.show('Audit')
      await page.getByRole('heading', { name: /^Last \d+ hours/ }).waitFor()
      await look('audit')
      await page.getByRole('link', { name: 'Approvals' }).click()
      await page.getByRole('group', { name: 'What was changed, newest first' }).waitFor()
      await look('audit-approvals')
      for (const [title, list] of [
        ['Calls', 'Calls of the administration, newest first'],
        ['Commands', 'Commands to nodes, newest first'],
      ] as const) {
        await page.getByRole('navigation', { name: 'Pages of the audit' }).getByRole('link', { name: title }).click()
        await page.getByRole('group', { name: list }).waitFor()
        await look(`audit-${title}`, null)
      }
      await page.getByRole('link', { name: 'People', exact: true }).click()
      await page.getByRole('heading', { name: 'Named tokens' }).waitFor()
      await look('audit-people', null)
      await page.getByRole('link', { name: 'Policy' }).click()
      await page.getByRole('group', { name: /^Actions/ }).waitFor()
      await look('audit-policy', null)

      await console.show('Try it')
      await page.getByLabel('Gateway key').fill(pool.customer.key)
      await page.getByLabel('Ask several models').check()
      await page.getByLabel('Strategy').selectOption('vote')
      await page.getByLabel('Message').fill('What is a penstock?')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByRole('region', { name: 'Trace of the answer' }).waitFor()
      await look('try')
      await page.getByText('Connect a program').click()
      await page.getByLabel('Program', { exact: true }).selectOption('claude-code')
      const guide = page.getByRole('group', { name: 'How to connect Claude Code' })
      await guide.getByText(`ANTHROPIC_AUTH_TOKEN=${pool.customer.key}`).waitFor()
      expect(await guide.textContent()).toContain(`ANTHROPIC_BASE_URL=${pool.gateway.url}\n`)
      await look('connect', null)
      await (await done).body?.cancel()
      const views = await page.getByRole('navigation', { name: 'Views' }).getByRole('link').allTextContents()
      expect([...console.shown].toSorted()).toEqual(views.filter((view) => view !== 'Pool').toSorted())
      await console.close()
    },
    testLimitMs,
  )
})
