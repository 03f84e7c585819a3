import { afterAll, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { testLimitMs, waitLimitMs } from '../support/run/limits.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const withBrowser = test.skipIf(!hasBrowser)

let browser: Browser | null = null
let key = ''
afterAll(async () => {
  await browser?.close()
})
const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const node = await fixture(startFakeNode({ models: ['m-1'], name: 'fake-' }))
const made = await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'A' } })
const { customer_id } = await json(made)
const path = `/v1/admin/customers/${customer_id}/keys`
key = String((await json(await gateway.ask('POST', path, { as: 'admin', json: { name: 'k' } }))).gateway_key)
const row = { customer_id, url: node.url, visibility: 'private', node_class: 'gpu', privacy_class: 'private' }
await gateway.ask('POST', '/v1/admin/nodes', { as: 'operator', json: row })
await waitUntil('the node is ready', () => gateway.gateway.router.counts().nodes.ready === 1)

test('the page brings its own policy and files; no other file is served', async () => {
  const page = await gateway.ask('GET', '/docs/api')
  expect(page.headers.get('content-type')).toStartWith('text/html')
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("script-src 'self';")
  expect(policy).not.toMatch(/script-src[^;]*(unsafe|http|\*)/)
  const html = await page.text()
  expect(html).not.toMatch(/https?:\/\//)
  for (const [, path = ''] of html.matchAll(/(?:src|href)="([^"]+)"/g)) {
    expect([path, (await gateway.ask('GET', path)).status]).toEqual([path, 200])
  }
  for (const path of ['package.json', 'swagger-ui.js.map', 'constructor']) {
    expect([path, (await gateway.ask('GET', `/docs/assets/${path}`)).status]).toEqual([path, 404])
  }
})

withBrowser(
  'offline: a key is entered, a chat is tried, no other host is asked, and the key is not kept',
  async () => {
    browser = await launchBrowser()
    const page = await browser.newPage()
    page.setDefaultTimeout(waitLimitMs)
    const faults: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(gateway.url) && !request.url().startsWith('data:')) faults.push(request.url())
    })
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text())
    })
    await page.goto(`${gateway.url}/docs/api`)
    await page.click('.btn.authorize')
    const scheme = page.locator('.auth-container', { has: page.getByText('gateway', { exact: false }) }).first()
    await scheme.locator('input').fill(key)
    await scheme.getByRole('button', { name: 'Apply credentials' }).click()
    await page.click('.modal-ux .close-modal')
    const chat = page.locator('#operations-Inference-createChatCompletion')
    await chat.locator('.opblock-summary').click()
    const body = { model: 'm-1', messages: [{ role: 'user', content: 'hi' }] }
    await chat.locator('.body-param textarea').fill(JSON.stringify(body))
    await chat.locator('.btn.execute').click()
    const answer = chat.locator('.live-responses-table .response-col_description pre').first()
    await answer.waitFor()
    expect(await answer.textContent()).toContain('chat.completion')
    // A stream is seen before it has ended: the node stops after its second piece, and says no more.
    node.setFaults({ kind: 'stall', afterChunks: 2 })
    await chat.locator('.body-param textarea').fill(JSON.stringify({ ...body, stream: true }))
    await chat.locator('.btn.execute').click()
    await chat.getByRole('log', { name: 'The stream as it comes' }).getByText('fake-1').waitFor()
    node.clearFaults()
    expect(faults).toEqual([])
    const stored = await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])')
    expect(String(stored)).not.toContain(key)
    await page.reload()
    await page.waitForSelector('.btn.authorize')
    expect(await page.locator('.btn.authorize.locked').count()).toBe(0)
  },
  testLimitMs,
)

withBrowser(
  'the page of the error codes: its own style by day and by night, the code of the link stands out, and no fault',
  async () => {
    browser ??= await launchBrowser()
    const faults: string[] = []
    const seen: Record<string, unknown>[] = []
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await browser.newPage({ colorScheme })
      page.on('console', (message) => {
        if (message.type() === 'error') faults.push(message.text())
      })
      page.on('request', (request) => {
        if (!request.url().startsWith(gateway.url)) faults.push(request.url())
      })
      await page.goto(`${gateway.url}/docs/errors#model_not_found`)
      const colour = (selector: string) =>
        page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).backgroundColor`)
      seen.push({ page: await colour('body'), meant: await colour(':target'), other: await colour('#internal_error') })
      expect(await page.locator(':target').textContent()).toContain('HTTP 404')
      await page.close()
    }
    expect(faults).toEqual([])
    const [light, dark] = seen
    expect(light?.page).not.toBe(dark?.page)
    for (const { meant, other } of seen) expect(meant).not.toBe(other)
  },
  testLimitMs,
)
