import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const nodesMax = 2_000
const address = '#pool?form=map'
const last = (page: Page) => page.locator('.pool-map .tile').nth(nodesMax - 1)

const gateway = await fixture(startTestGateway())
const node = await fixture(startFakeNode({ models: ['m'] }))
const { customerId } = await gateway.customer()
const ready = await gateway.node(node.url, { customerId })
await gateway.admin('PATCH', `/v1/admin/nodes/${ready}`, { name: 'aa', node_class: 'big', reason: 'test' })
// Agents that have never dialled in: nobody has to be asked how they are.
await gateway.database.sql`
      insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, admin_state)
      select 'node_' || lpad(n::text, 26, '0'), ${customerId}, 'agent', 'box-' || n, 'private', 'private',
        case when n % 4 = 0 then 'small' else 'big' end, case when n % 10 = 0 then 'revoked' when n % 10 = 1 then 'draining' else 'active' end
      from generate_series(2, ${nodesMax}) n`
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, gateway))

describe.skipIf(!hasBrowser)('the pool as a map', () => {
  test('2,000 nodes stand on one screen, filter as in the table, and are opened without a pointer', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await page.emulateMedia({ colorScheme: 'light' })
      await page.getByRole('navigation', { name: 'Form' }).getByRole('link', { name: 'Map', exact: true }).click()
      const map = page.getByRole('region', { name: /^Map of the nodes/ })
      const tiles = map.locator('a.tile')
      await last(page).waitFor()
      expect(await tiles.count()).toBe(nodesMax)
      expect(await page.evaluate('location.hash')).toContain(address)
      const over = `[document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]`
      expect(await page.evaluate<readonly number[]>(over)).toEqual([0, 0])
      expect(await map.getByRole('heading').allTextContents()).toEqual(['big 1,500', 'small 500'])
      expect(await map.locator('.mark-away').count()).toBe(nodesMax / 10)
      expect(await map.locator('.mark-draining').count()).toBe(nodesMax / 10 - 1)
      expect(await console.violations()).toEqual([])
      await page.emulateMedia({ colorScheme: 'dark' })
      expect(await console.violations('colours')).toEqual([])

      const search = page.getByRole('searchbox', { name: 'Find a node or model' })
      await search.fill('box-100')
      await page.getByText('11 of 2,000', { exact: true }).waitFor()
      expect(await tiles.count()).toBe(11)
      await search.fill('aa')
      await map.getByText('aa', { exact: true }).waitFor()
      expect(await console.violations()).toEqual([])
      await search.fill('')
      await last(page).waitFor()

      expect(await map.locator('.tile[tabindex="0"]').count()).toBe(1)
      const focused = () => page.evaluate<string>("document.activeElement.getAttribute('aria-label') ?? ''")
      await map.locator('.tile[tabindex="0"]').focus()
      expect(await focused()).toMatch(/^aa m, ready/)
      await page.keyboard.press('ArrowRight')
      expect(await focused()).toBe('box-2, enrolled')
      await page.keyboard.press('ArrowDown')
      const below = await focused()
      await page.keyboard.press('ArrowUp')
      expect([below === 'box-2, enrolled', await focused()]).toEqual([false, 'box-2, enrolled'])
      await page.keyboard.press('End')
      expect(await focused()).toBe('box-2000, revoked')
      await page.keyboard.press('Home')
      await page.keyboard.press('ArrowRight')
      await page.keyboard.press('Enter')

      const opened = page.getByRole('button', { name: 'box-2', exact: true, expanded: true })
      await opened.waitFor()
      await waitUntil('the keyboard to be there', () => opened.evaluate((button) => button === document.activeElement))
      await page.getByTitle('node_00000000000000000000000002', { exact: true }).waitFor()
      await page.goBack()
      await last(page).waitFor()
      expect(await tiles.count()).toBe(nodesMax)
      expect(console.faults).toEqual([])
    })
  })

  test('only the tile of a node that changes is drawn again, and a phone scrolls in one direction', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await page.setViewportSize({ width: 360, height: 740 })
      await page.evaluate(`location.hash = '${address}&colour=first_token&group=owner'`)
      await last(page).waitFor()
      expect(Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'))).toBeLessThanOrEqual(0)
      expect(await console.violations('structure')).toEqual([])
      await page.evaluate(`globalThis.touched = new Set()
        new MutationObserver((seen) => seen.forEach(({ target }) => touched.add(target.dataset?.node ?? target.className)))
          .observe(document.querySelector('.pool-map'), { subtree: true, childList: true, attributes: true, characterData: true })`)
      node.setFaults({ kind: 'refuse' })
      await page.locator('.pool-map .tile[aria-label^="aa"]:not(.mark-ready)').waitFor({ state: 'attached' })
      expect(await page.evaluate<number>('touched.size')).toBe(1)
      expect(console.faults).toEqual([])
    })
  })
})
