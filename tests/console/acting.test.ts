import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import { ensureAuditPartitions, insertAccessEvents } from '../../src/db/queries/audit/audit-events.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { newId } from '../../src/ids.ts'
import type { AuditSummary } from '../../src/protocol/wire/admin/audit-summary.ts'
import { newToken } from '../../src/secrets.ts'
import { dayMs } from '../../src/time.ts'
import { type ConsolePage, hasBrowser, launchBrowser, openConsole } from '../support/console/console.ts'
import { type ConsolePool, startConsolePool } from '../support/console/console-pool.ts'
import { type ConsoleWork, startConsoleWork } from '../support/console/console-work.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { startOllamaNode } from '../support/nodes/ollama-node.ts'

const second = newToken('admin')

const oldEvent = (createdAt: Date) => ({
  eventId: newId('evt'),
  actorType: 'admin_token' as const,
  actorRole: 'admin' as const,
  actorHashPrefix: null,
  method: 'GET',
  pathTemplate: '/v1/admin/nodes',
  queryKeys: [],
  statusCode: 200,
  outcome: 'success' as const,
  errorCode: null,
  userAgentHashPrefix: null,
  ipHashPrefix: null,
  requestId: newId('req'),
  createdAt,
})

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
  })
  afterAll(async () => {
    await browser?.close()
    server.stop()
    await strict?.stop()
    await work?.stop()
    await pool?.stop()
  })

  const dialog = () => page.getByRole('dialog')
  const press = (name: string) => dialog().getByRole('button', { name, exact: true }).click()
  /** Opens a menu: the account's comes before those of its keys. */
  const more = (on: string, at = 0) =>
    page
      .getByRole('button', { name: `More for ${on}` })
      .nth(at)
      .click()
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

  test('what the console reads by itself is no sensitive call', async () => {
    const sensitive = async () =>
      (await pool.gateway.admin<AuditSummary>('GET', '/v1/admin/audit/summary')).access.sensitive_count
    const before = await sensitive()
    for (const view of ['Money', 'Customers', 'Audit', 'Pool']) await console.show(view)
    await page.getByRole('row', { name: /rack-1/ }).waitFor()
    expect(await sensitive()).toBe(before)
  })

  test('a node is looked at while its URL is typed, added, and taken back', async () => {
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
  })

  test('a model is brought into the memory of a node, and taken back', async () => {
    const ollama = startOllamaNode({ models: ['granite'] })
    const nodeId = await pool.gateway.node(ollama.url, { customerId: pool.customer.customerId })
    await pool.gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { name: 'shelf' })
    try {
      // A view that is opened reads its rows, and with them the new name.
      await console.show('Customers')
      await console.show('Pool')
      await page.getByRole('button', { name: 'shelf', exact: true }).click()
      await page.getByRole('button', { name: /^Load granite/ }).click()
      await reason('for the morning')
      await press('Load')
      await page.getByRole('button', { name: 'Unload granite on shelf' }).waitFor()
      expect([...ollama.loaded]).toEqual(['granite'])
      await page.getByRole('button', { name: 'Undo' }).click()
      await reason('not today')
      await press('Unload')
      await page.getByRole('button', { name: /^Load granite/ }).waitFor()
      expect([...ollama.loaded]).toEqual([])
      expect((await events('node.model.load')).at(0)?.reason).toBe('for the morning')
    } finally {
      await pool.gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`)
      ollama.stop()
    }
  })

  test('a guest gets an account, a limit and a key, with the token of a second admin; the key is shown once', async () => {
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
    // A closed dialog has no role any more; it leaves the page a moment later.
    await page.locator('dialog').waitFor({ state: 'detached' })
    expect(await page.content()).not.toContain(key)
    await page.getByRole('row', { name: /Guest.*5,000/ }).waitFor()
    const asked = await fetch(`${strict.url}/v1/api/models`, { headers: { authorization: `Bearer ${key}` } })
    expect(asked.status).toBe(200)
    await page.getByRole('link', { name: 'Guest' }).click()
    await page.getByRole('button', { name: 'Credit Guest' }).click()
    await dialog().getByLabel('Amount').fill('0.000000000000001')
    await dialog()
      .getByLabel(/to confirm/)
      .fill('Guest')
    await reason('paid in cash')
    await approve()
    await press('Credit')
    await page.locator('.figure', { hasText: 'Balance' }).getByText('0.000000000000001 ETH').waitFor()
    await more('Guest')
    await page.getByRole('button', { name: 'Take credit back Guest' }).click()
    await dialog().getByLabel('Amount').fill('0.0000000000000004')
    await dialog()
      .getByLabel(/to confirm/)
      .fill('Guest')
    await reason('paid twice')
    await approve()
    await press('Take credit back')
    await page.locator('.figure', { hasText: 'Balance' }).getByText('0.0000000000000006 ETH').waitFor()
    await more('Guest')
    await page.getByRole('button', { name: 'Suspend Guest' }).click()
    await reason('left')
    await press('Suspend')
    await page.getByRole('button', { name: 'Undo' }).click()
    await reason('came back')
    await press('Activate')
    await more('Guest', 1)
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
    const invoice = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export invoice' }).click()
    expect((await invoice).suggestedFilename()).toMatch(/^invoice-cus_.*\.csv$/)
    for (const action of [
      'customer.create',
      'gateway_key.issue',
      'customer.credit.create',
      'customer.debit.create',
      'gateway_key.revoke',
    ]) {
      expect([action, (await events(action)).at(0)?.reason === null]).toEqual([action, false])
    }
  })

  test('a model gets an alias and a price, and is put back', async () => {
    await console.show('Models')
    await page.getByLabel('Amounts in').selectOption('wei')
    await page.getByLabel('Find in models').fill('qwen3-32b')
    expect(await page.getByRole('group', { name: 'Models' }).locator('tbody tr').count()).toBe(1)
    await page.getByRole('button', { name: 'Edit qwen3-32b' }).click()
    await dialog().getByLabel('Aliases').fill('qwen, big-qwen')
    await dialog().getByLabel('Price of a million prompt tokens').fill('3000000')
    await press('Save')
    await page.getByRole('row', { name: /qwen3-32b.*qwen, big-qwen/ }).waitFor()
    expect(await console.violations()).toEqual([])
    await page.getByRole('button', { name: 'Undo' }).click()
    await press('Put back')
    await page.getByRole('row', { name: /qwen3-32b no entry/ }).waitFor()
  })

  test('a job is cancelled and a webhook delivered again, each by a typed word; chain and books are checked', async () => {
    await console.show('Jobs')
    await page.getByRole('button', { name: `More for ${work.runningJob}` }).click()
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
  })

  test('the events of the audit that fit a filter are exported; the filter stands in the address', async () => {
    await pool.gateway.admin('POST', `/v1/admin/nodes/${pool.nodeIds[0]}/drain`, { reason: 'dust' })
    await pool.gateway.admin('POST', `/v1/admin/nodes/${pool.nodeIds[0]}/resume`, { reason: 'clean' })
    await console.show('Audit')
    await page.getByRole('link', { name: 'Approvals' }).click()
    await page.getByLabel('Action').fill('node.drain')
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.waitForURL(/#audit\/approvals\?action=node\.drain$/)
    await page
      .getByRole('row', { name: /node\.resume/ })
      .first()
      .waitFor({ state: 'detached' })
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export all that fit' }).click()
    const download = await saved
    expect(download.suggestedFilename()).toBe('approvals.csv')
    const [head, ...rows] = readFileSync(await download.path(), 'utf8')
      .trim()
      .split(/\r?\n/)
    expect(head).toStartWith('"event_id","created_at","action",')
    expect(rows.length).toBe((await events('node.drain')).length)
    expect(rows.every((row) => row.includes(',"node.drain",'))).toBe(true)
  })

  test('old events of the audit are deleted after a look at how many there are, by a typed sentence and a second admin', async () => {
    const { db } = pool.gateway.database
    const [oldMs, nowMs] = [Date.now() - 500 * dayMs, Date.now()]
    await ensureAuditPartitions(db, new Date(oldMs), new Date(nowMs))
    await insertAccessEvents(db, [oldEvent(new Date(oldMs))])
    await console.show('Audit')
    await more('the audit')
    await page.getByRole('button', { name: 'Delete the audit' }).click()
    await dialog()
      .getByText(/^1 event from before /)
      .waitFor()
    await dialog().getByLabel('Older than, days').fill('600')
    await dialog()
      .getByText(/^No event is older than /)
      .waitFor()
    await dialog().getByLabel('Older than, days').fill('400')
    await dialog()
      .getByText(/^1 event from before /)
      .waitFor()
    expect(await console.violations()).toEqual([])
    await reason('kept long enough')
    await approve()
    expect(await dialog().getByRole('button', { name: 'Delete' }).isDisabled()).toBe(true)
    await dialog()
      .getByLabel(/to confirm/)
      .fill('PURGE AUDIT EVENTS')
    await press('Delete')
    await closed()
    await page.getByText('The old events are deleted.').waitFor()
    const rows = await pool.gateway.database
      .sql`select 1 from admin_access_events where created_at < now() - interval '400 days'`
    expect(rows).toHaveLength(0)
    expect((await events('audit.retention.purge')).at(0)?.reason).toBe('kept long enough')
  })
})
