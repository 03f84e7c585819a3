import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { type ConsolePage, hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { fixture } from '../support/run/fixture.ts'

/** One red pixel. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const weather = { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }
const schema = { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object', properties: {} } } }

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer()

describe.skipIf(!hasBrowser)('Try it', () => {
  let browser: Browser
  let consoles: SharedConsoles
  const models = ['alpha', 'beta', 'gamma']
  const nodes: FakeNode[] = models.map((model) =>
    startFakeNode({ models: [model], answer: { text: `I am ${model}.`, chunks: 4, intervalMs: 20 } }),
  )
  beforeAll(async () => {
    for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })
    browser = await launchBrowser()
    consoles = new SharedConsoles(browser, gateway)
  })
  afterAll(async () => {
    await browser?.close()
    for (const node of nodes) node.stop()
  })
  /** What was said in a test before stays on the page until it is cleared. */
  const asks = (look: (console: ConsolePage) => Promise<void>) =>
    consoles.as('operator', async (console) => {
      const { page } = console
      await console.show('Try it')
      const clear = page.getByRole('button', { name: 'Clear', exact: true })
      if (await clear.isEnabled()) await clear.click()
      await page.getByLabel('Gateway key').fill(customer.key)
      await look(console)
    })
  /** The bodies of the last chats of a node. */
  const asked = (at: number) =>
    (nodes[at]?.requests ?? []).filter(({ path }) => path.endsWith('/chat/completions')).map(({ body }) => body)

  test('a mixture and models answer the same question side by side, each with its trace; another person opens the same settings', async () => {
    let address = ''
    await asks(async (console) => {
      const { page } = console
      await page.getByLabel('Model', { exact: true }).fill('alpha')
      const beside = page.getByRole('group', { name: 'Ask beside it, at most 3' })
      await beside.getByRole('checkbox', { name: 'beta' }).check()
      await beside.getByRole('checkbox', { name: 'gamma' }).check()
      await page.getByRole('checkbox', { name: 'Ask several models (mixture)' }).check()
      await page.getByLabel('Message').fill('who are you, between us?')
      await page.getByRole('button', { name: 'Send' }).click()
      const main = page.getByRole('region', { name: 'Trace of the answer' })
      await main
        .getByText('Sub-calls of the mixture')
        .or(main.getByText(/Mixture by/))
        .first()
        .waitFor()
      for (const model of ['beta', 'gamma']) {
        const other = page.getByRole('region', { name: `Answer of ${model}` })
        await other.getByText(`I am ${model}.`).waitFor()
        const trace = other.getByRole('region', { name: `Trace of ${model}` })
        for (const figure of [/^First token\d/, /^Rate[\d.,]+ tok\/s$/, /^Tokens out\d+$/, /^Costfree$/])
          await trace.locator('div').filter({ hasText: figure }).first().waitFor()
      }
      expect(await console.violations()).toEqual([])
      await page.setViewportSize({ width: 360, height: 800 })
      expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
      address = page.url()
      expect(address).toContain('model=alpha')
      expect(address).toContain('mixture=')
      for (const secret of [customer.key, 'who are', 'I am']) expect(decodeURIComponent(address)).not.toContain(secret)
      expect(console.faults).toEqual([])
    })
    await consoles.as('viewer', async ({ page }) => {
      await page.goto(address)
      await page.getByLabel('Gateway key').fill(customer.key)
      await page.getByRole('checkbox', { name: 'Ask several models (mixture)', checked: true }).waitFor()
      const chosen = page.getByRole('group', { name: 'Ask beside it, at most 3' })
      await chosen.getByRole('checkbox', { name: 'beta', checked: true }).waitFor()
      expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('alpha')
    })
  })

  test('a further question ends what a slower model still answers to the one before', async () => {
    await asks(async (console) => {
      const { page } = console
      const [, slow] = nodes
      slow?.setAnswer({ text: 'late '.repeat(500), chunks: 500, intervalMs: 200 })
      await page.getByLabel('Model', { exact: true }).fill('alpha')
      const beside = page.getByRole('group', { name: 'Ask beside it, at most 3' })
      await beside.getByRole('checkbox', { name: 'beta' }).check()
      const other = page.getByRole('region', { name: 'Answer of beta' })
      await page.getByLabel('Message').fill('first')
      await page.getByRole('button', { name: 'Send' }).click()
      await other.getByText('late').waitFor()
      await page.getByText('Answer: I am alpha.').waitFor()
      slow?.setAnswer({ text: 'I am beta.', chunks: 1 })
      const left = slow?.nextAbort()
      await page.getByLabel('Message').fill('second')
      await page.getByRole('button', { name: 'Send' }).click()
      await other.getByText('I am beta.', { exact: true }).waitFor()
      await left
      expect(console.faults).toEqual([])
    })
  })

  test('tools, a JSON schema and a picture go with the question; a tool that the answer calls is shown', async () => {
    await asks(async (console) => {
      const { page } = console
      await page.getByLabel('Model', { exact: true }).fill('gamma')
      const fields = page.getByLabel('More fields of the request')
      await fields.fill('{"messages": []}')
      await page.getByText('Type one JSON object without model, messages, stream, svc.').waitFor()
      expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
      await fields.fill(JSON.stringify({ tools: [weather], response_format: schema }))
      await page.getByLabel('Add a picture').setInputFiles({
        name: 'red.png',
        mimeType: 'image/png',
        buffer: Buffer.from(png, 'base64'),
      })
      await page.getByText('red.png', { exact: true }).waitFor()
      await page.getByLabel('Message').fill('what is this?')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByText('With the picture red.png.').waitFor()
      await page.getByText(/^Answer: weather\(\{.*\}\)$/).waitFor()
      expect(await console.violations()).toEqual([])
      expect(asked(2).at(-1)).toMatchObject({
        tools: [weather],
        response_format: schema,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'what is this?' },
              { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
            ],
          },
        ],
      })
      expect(page.url()).not.toContain('weather')
      expect(console.faults).toEqual([])
    })
  })
})
