import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { dayMs, hourMs, minuteMs } from '../../src/time.ts'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway, waitFor } from '../support/gateways/gateway.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const looks = [
  ['light', 1280],
  ['dark', 1280],
  ['light', 360],
] as const

const gateway = await fixture(
  startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_REQUEST_LOG_DAYS: '7' } }),
)
const { sql, db } = gateway.database

describe.skipIf(!hasBrowser)('plots of what went through', () => {
  let browser: Browser
  let consoles: SharedConsoles
  const now = Math.floor(Date.now() / minuteMs) * minuteMs
  beforeAll(async () => {
    await keepRequestRecords(db, new Date(now - 7 * dayMs), new Date(now), new Date(0))
    // Every ten seconds. Two humps of first tokens; refusals all the time, and nodes that fail for the last twenty minutes.
    await insertRequests(
      sql,
      `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - i * interval '10 seconds' - interval '1 second', 'cus_1', null,
        'chat', true, 'model-' || i % 2, 'node_' || i % 4, 1, 0, null, 2,
        case when i % 9 = 0 then null when i % 2 = 0 then 80 + i * 37 % 90 else 2500 + i * 53 % 3000 end, 4000 + i % 700, 10, 20 + i % 50, null,
        case when i % 30 = 0 then 403 when i % 45 = 0 then 429 when i < 120 and i % 9 = 0 then 502 else 200 end,
        case when i % 30 = 0 then 'model_not_allowed' when i % 45 = 0 then 'rate_limited' when i < 120 and i % 9 = 0 then 'upstream_error' end,
        null, null, null
      from generate_series(0, 17279) i`,
    )
    browser = await launchBrowser()
    consoles = new SharedConsoles(browser, gateway)
  })
  afterAll(async () => {
    await browser?.close()
  })

  const plotOf = (page: Page, name: RegExp) => page.getByRole('img', { name })
  const chartOf = (page: Page, title: string) => page.locator('figure', { hasText: title })

  test.each(looks)(
    '%s, %i wide: every plot has its axes, and nothing is wider than the page',
    async (colorScheme, width) => {
      await consoles.as('viewer', async (console) => {
        const { page } = console
        await page.emulateMedia({ colorScheme })
        await page.setViewportSize({ width, height: 860 })
        await page.goto(`${gateway.url}/console#traffic?range=3h`)
        await plotOf(page, /^First tokens by how long they took, 3(\.0)? h\. \d+ requests? took/).waitFor()
        await plotOf(page, /^Errors by class, per minute/).waitFor()
        await page.locator('figure canvas').nth(7).waitFor()
        // Ink of two colours at least: axes in one, what was measured in another.
        const inks = await page.locator('figure canvas').evaluateAll((all) =>
          all.map((each) => {
            const canvas = each as HTMLCanvasElement
            const { data } = canvas.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] }
            const seen = new Set<string>()
            for (let at = 0; at < data.length; at += 4)
              if ((data[at + 3] ?? 0) > 200) seen.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`)
            return seen.size
          }),
        )
        expect(inks).toHaveLength(8)
        for (const colours of inks) expect(colours).toBeGreaterThan(1)
        expect(await console.violations()).toEqual([])
        const wider = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect(Number(wider)).toBeLessThanOrEqual(0)
        expect(console.faults).toEqual([])
      })
    },
  )

  test('the cursor reads every plot at one moment, and a field of the heat map', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await page.goto(`${gateway.url}/console#traffic?range=1h`)
      const first = chartOf(page, 'Requests, per minute')
      await first.locator('.u-over').hover({ position: { x: 100, y: 50 } })
      // The plot of tokens has the same cursor, which stays at its place while the range moves on by a minute.
      const momentAt = (title: string) => chartOf(page, title).locator('.chart-time').innerText()
      await waitUntil('one moment in both plots', async () => {
        const moment = await momentAt('Requests, per minute')
        return /\d\d:\d\d/.test(moment) && (await momentAt('Tokens out')) === moment
      })
      const heat = chartOf(page, 'First tokens by how long they took')
      const over = heat.locator('.u-over')
      const field = heat.getByText(/^(0|\d.* m?s) to \d.* m?s: \d requests?$/)
      // From the top down: the fields of one minute stand somewhere in its column. A busy page may say so when the pointer is past it.
      await waitUntil('a field below the pointer', async () => {
        const { width = 0, height = 0 } = (await over.boundingBox()) ?? {}
        for (let y = 2; y < height && (await field.count()) === 0; y += 5) {
          await over.hover({ position: { x: width / 2, y } })
          await page.evaluate('new Promise(requestAnimationFrame)')
        }
        return (await field.count()) > 0
      })
      expect(console.faults).toEqual([])
    })
  })

  test('what was done, and an alert, are lines in the plots and a list below them; a node has its own', async () => {
    const fake = startFakeNode({ models: ['m'] })
    const id = await gateway.node(fake.url)
    await gateway.admin('POST', `/v1/admin/nodes/${id}/drain`, { reason: 'test' })
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await page.goto(`${gateway.url}/console#traffic?range=1h`)
      const list = page.getByRole('region', { name: 'What was changed' }).getByRole('listitem')
      await list
        .filter({ hasText: /Alert: errors above 5 %$/ })
        .first()
        .waitFor()
      // What was done is read beside what failed.
      await list.filter({ hasText: 'drained' }).waitFor()
      const texts = (await list.allInnerTexts()).map((text) => text.replace(/^[\d:. ]+/, ''))
      expect(texts.filter((text) => text.endsWith('drained'))).toHaveLength(1)
      expect(texts).toContain('Gateway started')
      await plotOf(page, /^Requests, per minute, .* marks\.$/).waitFor()
      // The line of the alert has its own ink, which no plot of requests has else.
      const alertInk = () =>
        page.evaluate<number>(`(() => {
            const probe = document.createElement('span')
            probe.style.color = 'var(--bad)'
            document.body.append(probe)
            const bad = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).join(' ')
            probe.remove()
            const canvas = document.querySelector('figure canvas')
            if (canvas === null) return 0
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
            let seen = 0
            for (let at = 0; at < data.length; at += 4)
              if (data[at + 3] > 200 && data[at] + ' ' + data[at + 1] + ' ' + data[at + 2] === bad) seen++
            return seen
          })()`)
      await waitFor('the line of the alert', async () => (await alertInk()) > 20)
      expect(await console.violations()).toEqual([])
      await page.goto(`${gateway.url}/console#traffic?range=1h&node_id=node_0`)
      await list.filter({ hasText: 'Gateway started' }).waitFor()
      await waitFor('no mark of another node', async () => (await list.filter({ hasText: 'drained' }).count()) === 0)
      expect(console.faults).toEqual([])
    })
    fake.stop()
  })

  test('a mark in one plot zooms all of them, stands in the address, and leads back', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await page.goto(`${gateway.url}/console#traffic?range=24h&model=model-1`)
      const requests = chartOf(page, 'Requests, per hour')
      await requests.scrollIntoViewIfNeeded()
      const over = requests.locator('.u-over')
      await over.waitFor()
      const { x, y, width } = (await over.boundingBox()) ?? { x: 0, y: 0, width: 0 }
      await page.mouse.move(x + width * 0.5, y + 40)
      await page.mouse.down()
      await page.mouse.move(x + width * 0.6, y + 60, { steps: 5 })
      await page.mouse.up()
      const part = page.getByRole('navigation', { name: 'Part of the time' })
      await part.waitFor()
      const marked = new URLSearchParams(new URL(page.url()).hash.split('?')[1])
      const [from = Number.NaN, to = Number.NaN] = ['from', 'to'].map((name) => Date.parse(marked.get(name) ?? ''))
      // A tenth of a day; an axis begins with a whole hour.
      const hours = (to - from) / hourMs
      expect([hours > 2.1, hours < 2.7]).toEqual([true, true])
      expect([marked.get('model'), marked.get('range')]).toEqual(['model-1', '24h'])
      await chartOf(page, 'Requests, per minute').waitFor()
      // Who opens the address sees the same.
      await page.reload()
      await plotOf(page, /^Requests, per minute, (2\.\d|1[34]\d) (h|min)/).waitFor()
      await part.getByRole('link', { name: 'Closer' }).focus()
      await page.keyboard.press('Enter')
      await plotOf(page, /^Requests, per minute, (1\.\d h|[67]\d min)/).waitFor()
      await part.getByRole('link', { name: 'Back to 24 hours' }).click()
      await requests.waitFor()
      expect(page.url()).toEndWith('#traffic?range=24h&model=model-1')
      expect(console.faults).toEqual([])
    })
  })
})
