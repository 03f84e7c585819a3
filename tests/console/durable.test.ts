import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { ApprovalPolicy } from '../../src/protocol/wire/admin/approval-policy.ts'
import type { AuditSummary } from '../../src/protocol/wire/admin/audit-summary.ts'
import type { LedgerProof, PayoutBatchList } from '../../src/protocol/wire/money/money.ts'
import { type ConsolePage, hasBrowser, launchBrowser } from '../support/console/console.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { startConsoleWork } from '../support/console/console-work.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { fixture } from '../support/run/fixture.ts'

const pool = await fixture(startConsolePool({ SVC_AUDIT_REVIEW_DENIED: '1' }))
const work = await fixture(startConsoleWork(pool))
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, pool.gateway))

describe.skipIf(!hasBrowser)('jobs, money and audit as they are', () => {
  const as = (role: 'viewer' | 'operator', look: (console: ConsolePage) => Promise<void>) =>
    consoles.as(role, async (console) => {
      await look(console)
      expect(await console.violations()).toEqual([])
      expect(console.faults).toEqual([])
    })
  const read = <T>(path: string) => pool.gateway.admin<T>('GET', path)

  test('the jobs that run and ended and a webhook that fails stand in their lists and lead to their charts', () =>
    as('viewer', async ({ page, show }) => {
      await show('Jobs')
      const row = (around: Pick<Page, 'getByRole'>, id: string) =>
        around.getByRole('row').filter({ has: page.getByTitle(id) })
      await row(page, work.runningJob).getByText('running').waitFor()
      const jobs = page.getByRole('region', { name: 'Private jobs', exact: true })
      await row(jobs, work.endedJob).getByText('completed').waitFor()
      const webhook = row(page.getByRole('region', { name: 'Webhooks', exact: true }), work.endedJob)
      // At some moments it is being delivered anew.
      await webhook.getByText('retry scheduled').waitFor()
      // What it said to whom is the customer's.
      expect(await page.textContent('main')).not.toMatch(/hooks\.invalid|secret/)
      await webhook.getByRole('link').click()
      await page.locator('[data-state=retry_scheduled].lit.has-live').waitFor()
      await show('Jobs')
      await row(page, work.runningJob).getByRole('link').click()
      await page.locator('[data-state=attending].lit.has-live').waitFor()
      expect(await page.locator('[data-count=attending]').textContent()).toBe('1')
    }))

  test('a job that ends is shown so without a reload', () =>
    as('viewer', async ({ page, show }) => {
      await show('Statecharts')
      await page.getByRole('link', { name: /^Private job/ }).click()
      await page.locator(`a[href$="${work.runningCommand}"]`).click()
      await page.locator('[data-state=attending].lit.has-live').waitFor()
      await pool.gateway.admin('POST', `/v1/admin/commands/${work.runningCommand}/cancel`, { reason: 'too long' })
      await page.locator('[data-state=cancelled].lit').waitFor()
    }))

  test('the books are proved, a batch leads to its chart, and no chain is said to be none', () =>
    as('operator', async ({ page, show }) => {
      const proof = await read<LedgerProof>('/v1/admin/ledger/proof')
      expect(proof.balanced).toBe(true)
      await show('Money')
      await page.getByText(`every one of ${proof.entries} entries adds up`).waitFor()
      await page.getByText(/^No blockchain is configured/).waitFor()
      const balances = page.getByRole('group', { name: 'Balances of customers' })
      await balances.getByRole('row', { name: /^reader/ }).waitFor()
      const { batches } = await read<PayoutBatchList>('/v1/admin/payout-batches')
      expect(batches.map(({ batch_id, payout_count, status }) => [batch_id, payout_count, status])).toEqual([
        [work.batchId, 2, 'created'],
      ])
      await page
        .getByTitle(batches[0]?.total_amount_wei ?? 'no batch')
        .first()
        .waitFor()
      await page.locator(`a[href$="${work.batchId}"]`).click()
      await page.locator('[data-state=created].lit').waitFor()
      expect(await page.locator('[data-count=created]').textContent()).toBe('1')
    }))

  test('the audit says how risky the day was and what stands in the way of production, as its routes do', () =>
    as('viewer', async ({ page, show }) => {
      const { risk } = await read<AuditSummary>('/v1/admin/audit/summary')
      const policy = await read<ApprovalPolicy>('/v1/admin/approval-policy')
      expect([risk.status, policy.production_blocked_by.length > 0]).toEqual(['review', true])
      await show('Audit')
      const verdict = page.locator('.verdict', { hasText: 'Risk' })
      for (const action of risk.review_actions) expect(await verdict.textContent()).toContain(action)
      await verdict.getByText('review', { exact: true }).waitFor()
      await page.getByRole('link', { name: 'Policy' }).click()
      await page.locator('.blockers').waitFor()
      expect(await page.locator('.blockers li').allTextContents()).toEqual(
        policy.production_blocked_by.map((blocker) => blocker.replaceAll('_', ' ')),
      )
      const actions = page.getByRole('group', { name: 'Actions of the approval policy' })
      expect(await actions.locator('tbody tr').count()).toBe(policy.actions.length)
    }))

  test('only views whose routes are there are in the navigation', () =>
    as('viewer', async ({ page }) => {
      const document = (await (await fetch(`${pool.gateway.url}/openapi.json`)).json()) as { paths: object }
      const has = (path: string) => path in document.paths
      expect(await page.getByRole('navigation', { name: 'Views' }).getByRole('link').allTextContents()).toEqual([
        'Now',
        'Pool',
        'Models',
        ...(has('/v1/admin/plan') ? ['Plan'] : []),
        'Customers',
        'Statecharts',
        'Traffic',
        'Requests',
        ...(has('/v1/admin/jobs') ? ['Jobs'] : []),
        ...(has('/v1/admin/payout-batches') ? ['Money'] : []),
        ...(has('/v1/admin/audit/summary') ? ['Audit'] : []),
        'Try it',
      ])
    }))

  test('a viewer finds nothing to touch, and no customer of a job', () =>
    as('viewer', async ({ page, show }) => {
      const denied = async () => (await read<AuditSummary>('/v1/admin/audit/summary')).access.denied_count
      const before = await denied()
      for (const view of ['Jobs', 'Money', 'Audit']) {
        await show(view)
        await page.locator('main table').first().waitFor()
        // A viewer may look, search, sort and check; whatever changes something opens a form, and has no button here.
        const touchable = page
          .locator('main')
          .locator('button:not(.check button, .sort), input:not([type=search]), form:not(.filters)')
        expect([view, await touchable.count()]).toEqual([view, 0])
      }
      await show('Money')
      await page.getByText('Not for this role').waitFor()
      // Looking around is nothing that the audit has to call denied.
      expect(await denied()).toBe(before)
      await show('Jobs')
      await page.locator('main table').first().waitFor()
      expect(await page.textContent('main')).not.toContain(pool.customer.customerId)
      const cancel = await fetch(`${pool.gateway.url}/v1/admin/commands/${work.runningCommand}/cancel`, {
        method: 'POST',
        headers: { 'x-svc-admin-token': pool.gateway.tokens.viewer },
      })
      expect(cancel.status).toBe(403)
    }))
})
