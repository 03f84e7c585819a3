import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { newToken } from '../../src/secrets.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { type ConsolePool, startConsolePool } from '../support/console/console-pool.ts'
import { type ConsoleWork, startConsoleWork } from '../support/console/console-work.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'

const slowMs = 60_000
const second = newToken('admin')

interface Approval {
  readonly reason: string | null
}

describe.skipIf(!hasBrowser)('§16: acting from the console, with what the policy asks for', () => {
  let pool: ConsolePool
  let work: ConsoleWork
  let strict: TestGateway
  let browser: Browser
  let console: ConsolePage
  let page: Page
  const server = startFakeNode({ models: ['phi-4'] })
  beforeAll(async () => {
    pool = await startConsolePool()
    work = await startConsoleWork(pool)
    const { admin } = pool.gateway.tokens
    // The same pool through a gateway that asks for two people.
    const env = { SVC_ADMIN_TOKENS: `${admin},${second}`, SVC_REQUIRE_SECOND_APPROVER: 'true' }
    strict = await startTestGateway({ beside: pool.gateway, env })
    browser = await launchBrowser()
    console = await openConsole(browser, strict.url)
    page = console.page
    await console.signIn(admin)
  }, slowMs)
  afterAll(async () => {
    await browser?.close()
    server.stop()
    await strict?.stop()
    await work?.stop()
    await pool?.stop()
  })

  const dialog = () => page.getByRole('dialog')
  const press = (name: string) => dialog().getByRole('button', { name, exact: true }).click()
  const reason = (text: string) => dialog().getByLabel('Reason').fill(text)
  const approve = () => dialog().getByLabel('Token of a second admin').fill(second)
  const events = async (action: string) => {
    const { events: found } = await pool.gateway.admin<{ events: readonly Approval[] }>(
      'GET',
      `/v1/admin/approval-events?action=${action}`,
    )
    return found
  }
  const closed = () => dialog().waitFor({ state: 'hidden' })

  test(
    'a node is looked at while its URL is typed, added, and taken back',
    async () => {
      await page.getByRole('button', { name: 'Add a node' }).click()
      await dialog().getByLabel('URL').fill('127.0.0.1:9')
      await dialog().getByText('Nothing listens there.').waitFor()
      await dialog().getByRole('button', { name: 'Add anyway' }).waitFor()
      await dialog().getByLabel('URL').fill(server.url)
      await dialog()
        .getByText(/answers there, with phi-4/)
        .waitFor()
      expect(await console.violations()).toEqual([])
      await dialog().getByLabel('Name').fill('attic')
      expect(await dialog().getByRole('button', { name: 'Add', exact: true }).isDisabled()).toBe(true)
      await reason('a new computer')
      await press('Add')
      await page.getByRole('row', { name: /attic/ }).getByText('ready').waitFor()
      expect((await events('node.register')).at(0)?.reason).toBe('a new computer')
      await page.getByRole('button', { name: 'Undo' }).click()
      await dialog()
        .getByLabel(/to confirm/)
        .fill('attic')
      await reason('not wanted')
      await press('Remove')
      await page.getByRole('row', { name: /attic/ }).waitFor({ state: 'hidden' })
      await page.getByRole('button', { name: 'Enrol a computer' }).click()
      await dialog().getByLabel('Name').fill('shed')
      await reason('for the garden')
      await press('Make the line')
      expect(await dialog().locator('.secret code').textContent()).toMatch(/^sh -c 'set -e; .*' penstock$/)
      await press('Done')
      await page.getByRole('button', { name: 'Undo' }).click()
      await reason('no garden')
      await press('Withdraw')
      await closed()
      expect((await events('node.enroll.withdraw')).at(0)?.reason).toBe('no garden')
    },
    slowMs,
  )

  test(
    'a guest gets an account, a limit and a key, with the token of a second admin; the key is shown once',
    async () => {
      await console.show('Customers')
      await page.getByRole('button', { name: 'Add a customer' }).click()
      await dialog().getByLabel('Name').fill('Guest')
      await dialog().getByLabel('Tokens a day').fill('5000')
      await reason('visits for a week')
      expect(await dialog().getByRole('button', { name: 'Create' }).isDisabled()).toBe(true)
      await approve()
      expect(await console.violations()).toEqual([])
      await press('Create')
      const key = (await dialog().locator('.secret code').first().textContent()) ?? ''
      expect(key).toMatch(/^svc_gateway_/)
      expect(await console.violations()).toEqual([])
      await dialog().getByRole('button', { name: 'Copy Gateway key' }).click()
      await press('Done')
      expect(await page.content()).not.toContain(key)
      await page.getByRole('row', { name: /Guest.*5,000/ }).waitFor()
      const asked = await fetch(`${strict.url}/v1/api/models`, { headers: { authorization: `Bearer ${key}` } })
      expect(asked.status).toBe(200)
      await page.getByRole('link', { name: 'Guest' }).click()
      await page.getByRole('button', { name: 'Credit Guest' }).click()
      await dialog().getByLabel('Amount').fill('1000')
      await dialog()
        .getByLabel(/to confirm/)
        .fill('Guest')
      await reason('paid in cash')
      await approve()
      await press('Credit')
      await page.locator('.figure', { hasText: 'Balance' }).getByText('1000').waitFor()
      await page.getByRole('button', { name: 'Suspend Guest' }).click()
      await reason('left')
      await press('Suspend')
      await page.getByRole('button', { name: 'Undo' }).click()
      await reason('came back')
      await press('Activate')
      await page.getByRole('button', { name: 'Suspend Guest' }).waitFor()
      await page.getByRole('button', { name: 'Revoke Guest' }).click()
      await dialog()
        .getByLabel(/to confirm/)
        .fill('Guest')
      await reason('lost')
      await approve()
      await press('Revoke')
      await page.getByRole('row', { name: /Guest/ }).getByText('revoked').waitFor()
      const saved = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Export usage' }).click()
      expect((await saved).suggestedFilename()).toMatch(/^usage-cus_.*\.csv$/)
      for (const action of ['customer.create', 'gateway_key.issue', 'customer.credit.create', 'gateway_key.revoke']) {
        expect([action, (await events(action)).at(0)?.reason === null]).toEqual([action, false])
      }
    },
    slowMs,
  )

  test(
    'a model gets an alias and a price, and is put back',
    async () => {
      await console.show('Models')
      await page.getByLabel('Find in models').fill('qwen3-32b')
      expect(await page.getByRole('group', { name: 'Models' }).locator('tbody tr').count()).toBe(1)
      await page.getByRole('button', { name: 'Edit qwen3-32b' }).click()
      await dialog().getByLabel('Aliases').fill('qwen, big-qwen')
      await dialog().getByLabel('Price of a prompt’s token').fill('3')
      await press('Save')
      await page.getByRole('row', { name: /qwen3-32b.*qwen, big-qwen/ }).waitFor()
      expect(await console.violations()).toEqual([])
      await page.getByRole('button', { name: 'Undo' }).click()
      await press('Put back')
      await page.getByRole('row', { name: /qwen3-32b no entry/ }).waitFor()
    },
    slowMs,
  )

  test(
    'a job is cancelled and a webhook delivered again, each by a typed word; chain and books are checked',
    async () => {
      await console.show('Jobs')
      await page.getByRole('button', { name: `Cancel ${work.runningJob}` }).click()
      await reason('asked by its customer')
      await dialog()
        .getByLabel(/to confirm/)
        .fill('cancel')
      await press('Cancel job')
      await waitFor('the cancellation', async () => (await events('command.cancel')).length > 0)
      await page.getByRole('button', { name: `Redeliver ${work.endedJob}` }).click()
      await reason('the receiver was down')
      await dialog()
        .getByLabel(/to confirm/)
        .fill('redeliver')
      await press('Redeliver')
      await closed()
      expect((await events('webhook.redeliver')).length).toBe(1)
      await console.show('Money')
      await page.getByRole('button', { name: 'Recompute the books row by row' }).click()
      await page.getByText(/^Every row of .* agrees\.$/).waitFor()
      await console.show('Audit')
      await page.getByRole('button', { name: 'Check the chains' }).click()
      await page.getByText(/^The chains hold/).waitFor()
      expect(console.faults).toEqual([])
    },
    slowMs,
  )
})
