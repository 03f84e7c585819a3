import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { PayoutBatch } from '../../src/protocol/wire/money/money.ts'
import { type ConsolePage, hasBrowser, launchBrowser } from '../support/console/console.ts'
import { batchThat, explorer, startConsoleChain } from '../support/console/console-batches.ts'
import { startConsolePool } from '../support/console/console-pool.ts'
import { startConsoleWork } from '../support/console/console-work.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { fixture } from '../support/run/fixture.ts'

const clockTime = /^\d\d:\d\d:\d\d\.\d{3}$/

const chain = await fixture(startConsoleChain())
const pool = await fixture(startConsolePool(chain.env))
const work = await fixture(startConsoleWork(pool, chain))
if (work.batches === null) throw new Error('no batches')
const batches = work.batches
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, pool.gateway))

describe.skipIf(!hasBrowser)('payout batches on a chain', () => {
  const as = (role: 'viewer' | 'operator', look: (console: ConsolePage) => Promise<void>) =>
    consoles.as(role, async (console) => {
      await look(console)
      expect(await console.violations()).toEqual([])
      expect(console.faults).toEqual([])
    })
  const hashOf = async (batchId: string) =>
    (await batchThat(pool.gateway, batchId, ({ submitted_tx_hash: hash }) => hash !== null)).submitted_tx_hash
  const rowOf = (page: Page, batchId: string) =>
    page
      .getByRole('region', { name: 'Payout batches', exact: true })
      .getByRole('row')
      .filter({ has: page.getByTitle(batchId) })
  const linksTo = (place: Pick<Page, 'getByRole'>) =>
    place
      .getByRole('link', { name: /in the explorer/ })
      .evaluateAll((links) => links.map((link) => link.getAttribute('href')))

  test('§14: each batch says in the money view where it stands, and where its transaction can be seen', () =>
    as('operator', async ({ page, show }) => {
      await show('Money')
      const stands: readonly (readonly [string, PayoutBatch['status'], readonly string[]])[] = [
        [batches.completed, 'completed', []],
        [batches.submitted, 'submitted', []],
        [batches.held, 'created', ['held', 'would_revert']],
        [batches.waiting, 'created', ['insufficient_funds']],
      ]
      for (const [batchId, status, troubles] of stands) {
        const row = rowOf(page, batchId)
        await row.getByText(status, { exact: true }).waitFor()
        for (const trouble of troubles) await row.getByText(trouble).waitFor()
        const sent = troubles.length === 0
        // The explorer's address comes with another read than the rows.
        if (sent) await row.getByRole('link', { name: /in the explorer/ }).waitFor()
        expect(await linksTo(row)).toEqual(sent ? [`${explorer}/tx/${await hashOf(batchId)}`] : [])
      }
      expect(await page.getByText(/^No blockchain is configured/).count()).toBe(0)
    }))

  test('§23: a completed batch is lit in the chart, with the times of all it went through and its transaction', () =>
    as('viewer', async ({ page, show }) => {
      await show('Money')
      await rowOf(page, batches.completed).getByRole('link').first().click()
      await page.locator('[data-state=completed].lit').waitFor()
      const history = page.locator('.history li')
      // A batch at rest is lit by its row, and its history is read by itself.
      await history.filter({ hasText: 'created' }).last().waitFor()
      const states = await history.locator('.history-state').allTextContents()
      expect([states[0], states.at(-1)]).toEqual(['completed', 'created'])
      for (const state of ['signing', 'submitting', 'sending', 'submitted', 'looking', 'recording'])
        expect(states).toContain(state)
      for (const time of await history.locator('time').allTextContents()) expect(time).toMatch(clockTime)
      const facts = page.locator('.chosen')
      await facts.getByRole('link', { name: /in the explorer/ }).waitFor()
      expect(await linksTo(facts)).toEqual([`${explorer}/tx/${await hashOf(batches.completed)}`])
    }))

  test('§23: one that is held, and one that waits for money, say so beside their chart', () =>
    as('viewer', async ({ page, show }) => {
      await show('Statecharts')
      await page.getByRole('link', { name: /^Payout batch/ }).click()
      for (const [batchId, trouble] of [
        [batches.held, 'would_revert'],
        [batches.waiting, 'insufficient_funds'],
      ] as const) {
        await page.locator(`a[href$="${batchId}"]`).click()
        await page.locator('.chosen').getByText(trouble).waitFor()
        expect(await page.locator('.chosen').getByRole('link').count()).toBe(0)
      }
    }))

  test('§23: a submitted batch is lit, and completed before the eyes of whoever looks once its block is final', () =>
    as('viewer', async ({ page, show }) => {
      await show('Statecharts')
      await page.getByRole('link', { name: /^Payout batch/ }).click()
      await page.locator(`a[href$="${batches.submitted}"]`).click()
      await page.locator('[data-state=submitted].lit').waitFor()
      await chain.anvil.mine(2)
      await page.locator('[data-state=completed].lit').waitFor()
      await page.locator('.history li').first().getByText('completed', { exact: true }).waitFor()
    }))
})
