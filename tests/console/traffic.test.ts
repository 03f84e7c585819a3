import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { keepRequestRecords } from '../../src/db/queries/requests/request-records.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { dayMs } from '../../src/time.ts'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { insertRequests } from '../support/pools/request-rows.ts'
import { fixture } from '../support/run/fixture.ts'

const nodeCount = 200
const modelCount = 1_000
/** A view of a long list has so many rows at most: what can be seen, and some around it. */
const rowsMax = 120
const name = (at: number) => `model-${String(at).padStart(4, '0')}`

const gateway = await fixture(
  startTestGateway({
    env: { SVC_POLL_INTERVAL_MS: '2000', SVC_ADMIN_RPM_PER_TOKEN: '1000000', SVC_REQUEST_LOG_DAYS: '7' },
  }),
)

describe.skipIf(!hasBrowser)('traffic, and a pool of 200 nodes and 1,000 models', () => {
  let browser: Browser
  let consoles: SharedConsoles
  let nodeId: string
  const big = startFakeNode({ models: Array.from({ length: modelCount }, (_, at) => name(at)) })
  beforeAll(async () => {
    nodeId = await gateway.node(big.url)
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { name: 'the-big-one' })
    const { sql, db } = gateway.database
    // Nothing listens there, and nobody is asked to wait for it.
    await sql`insert into nodes select (jsonb_populate_record(n, jsonb_build_object('node_id', 'node_' || i,
      'name', 'rack-' || lpad(i::text, 3, '0'), 'url', 'http://127.0.0.1:1/' || i, 'admin_state', 'revoked'))).*
      from nodes n, generate_series(1, ${nodeCount}) i`
    const now = Date.now()
    await keepRequestRecords(db, new Date(now - 7 * dayMs), new Date(now), new Date(0))
    // Yesterday half as many as today, and in a third of the time.
    await insertRequests(
      sql,
      `select 'req_' || lpad(i::text, 26, '0'), to_timestamp(${now / 1_000}) - i * interval '10 seconds' - interval '1 minute', 'cus_1', null, 'chat',
        true, 'model-' || lpad((i % 1000)::text, 4, '0'), case when i % 2 = 0 then '${nodeId}' else 'node_' || i % 200 end, 1, 0, null, 2,
        case when i < 8640 then 900 else 300 end, 4000, 10, 20, null, 200, null, null, null, null
      from generate_series(0, 17279) i where i < 8640 or i % 2 = 0`,
    )
    browser = await launchBrowser()
    consoles = new SharedConsoles(browser, gateway)
  })
  afterAll(async () => {
    await browser?.close()
    big.stop()
  })

  test('a range stands beside the one before it; nodes and models are searched and sorted, and few of their rows are there', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      await console.show('Traffic')
      await page.getByRole('link', { name: '24 hours' }).click()
      const requests = page.locator('.figure', { hasText: 'Requests' })
      // A long range begins with a whole hour: up to an hour of the slower day before is in it.
      await requests.getByText(/^8,[678]\d\d/).waitFor()
      expect(await requests.innerText()).toMatch(/before: 4,[0-4]\d\d/)
      expect(await page.locator('.figure', { hasText: 'First token, p50' }).innerText()).toMatch(
        /9\d\d ms before: (2[89]|3[01])\d ms/,
      )
      await page.getByRole('img', { name: /^First token, p95, 2\d(\.\d)? h/ }).waitFor()
      const models = page.getByRole('group', { name: 'Models', exact: true })
      expect(await models.getByRole('table').getAttribute('aria-rowcount')).toBe(String(modelCount + 1))
      expect(await models.getByRole('row').count()).toBeLessThan(rowsMax)
      await models.evaluate((frame) => {
        frame.scrollIntoView()
        frame.scrollTo(0, frame.scrollHeight)
      })
      await models.getByRole('row').last().waitFor()
      await models.locator('[aria-rowindex="1001"]').waitFor()
      await page.getByRole('button', { name: 'Model', exact: true }).click()
      await page.getByLabel('Find in models').fill('-0777')
      // At no moment do the figures of all models stand below the name of one of them.
      const first = page.evaluate(
        () =>
          new Promise<{ models: boolean }>((done) => {
            const seen = () => {
              if (![...document.querySelectorAll('a')].some(({ textContent }) => textContent === 'Show all')) return
              watching.disconnect()
              done({ models: document.querySelector('[aria-label="Models"]') !== null })
            }
            const watching = new MutationObserver(seen)
            watching.observe(document.body, { subtree: true, childList: true })
          }),
      )
      await models.getByRole('link', { name: 'model-0777' }).click()
      expect(await first).toEqual({ models: false })
      expect(page.url()).toContain('range=24h&model=model-0777')
      expect(await console.violations()).toEqual([])
      expect(console.faults).toEqual([])
    })
  })

  test('the pool keeps few rows of many, and finds any of them', async () => {
    await consoles.as('viewer', async (console) => {
      const { page } = console
      const nodes = page.getByRole('group', { name: 'Nodes', exact: true })
      await nodes.getByRole('row').nth(5).waitFor()
      expect(await nodes.getByRole('row').count()).toBeLessThan(rowsMax)
      await page.getByLabel('Find a node or model').fill('rack-144')
      await nodes.getByRole('button', { name: 'rack-144', exact: true }).waitFor()
      await page.getByLabel('Find a node or model').fill(name(999))
      await nodes.getByRole('button', { name: 'the-big-one', exact: true }).click()
      const models = page.getByRole('group', { name: 'Models of the-big-one' })
      expect(await models.getByRole('row').count()).toBeLessThan(rowsMax)
      await page.getByLabel('Find in models of the-big-one').fill(name(999))
      await models.getByRole('rowheader', { name: name(999) }).waitFor()
      // No list of choices grows with the pool.
      for (const view of ['Statecharts', 'Traffic', 'Requests', 'Try it']) {
        await console.show(view)
        expect([view, (await page.locator('option').count()) <= nodeCount]).toEqual([view, true])
      }
      // Typing a name brings it among the choices.
      await console.show('Requests')
      await page.getByLabel('Model', { exact: true }).fill(name(999))
      await page.locator(`#filter-model-offers option[value="${name(999)}"]`).waitFor({ state: 'attached' })
      expect(console.faults).toEqual([])
    })
  })
})
