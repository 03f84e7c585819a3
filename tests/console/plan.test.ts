import { describe, expect, test } from 'bun:test'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { scriptModel } from '../support/nodes/model-files.ts'
import { startPlannedPool } from '../support/pools/planned-pool.ts'
import { fixture } from '../support/run/fixture.ts'

const pool = await fixture(
  startPlannedPool('advise', [
    scriptModel('a', { 'load-ms': '800', 'answer-ms': '600' }),
    scriptModel('b', {}, { pinned: true, logs: true }),
  ]),
)
for (let call = 0; call < 4; call++) expect(await pool.ask('a')).toBe(200)
await pool.tell('unload', 'a')
await waitFor('the advice', async () => (await pool.plan()).places.some(({ step }) => step === 'load'))
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, pool.gateway))

describe.skipIf(!hasBrowser)('§37: the plan of the memory on the page', () => {
  test('it says what should be loaded and why, and a button does it by the action of operators', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await console.show('Plan')
      const advice = page.getByRole('list', { name: 'Loads that pay' }).getByRole('listitem')
      await advice.getByText(/Load a on test machine: \d+ % of its calls waited/).waitFor()
      await page.getByRole('row', { name: /test machine.*b.*in memory, pinned/ }).waitFor()
      expect(await console.violations()).toEqual([])
      await advice.getByRole('button', { name: /^Load/ }).click()
      await page.getByRole('dialog').getByLabel('Reason').fill('as planned')
      await page.getByRole('dialog').getByRole('button', { name: 'Load', exact: true }).click()
      await page.getByRole('dialog').waitFor({ state: 'hidden' })
      await waitFor('the load', () => pool.folder.stateOf('a') === 'ready.idle')
      const { events } = await pool.gateway.admin<{ events: object[] }>(
        'GET',
        '/v1/admin/approval-events?action=node.model.load&limit=1',
      )
      expect(events[0]).toMatchObject({ actor_type: 'admin_token', reason: 'as planned', metadata: { model: 'a' } })
      await page.getByText('Everything is where it should be').waitFor()
      expect(console.faults).toEqual([])
    })
  })

  test('beside each model of an agent stands a button for its log, which says why there is none to read', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await console.show('Pool')
      await page.getByRole('button', { name: 'test machine', exact: true }).click()
      const read = async (model: string) => {
        await page.getByRole('button', { name: `Log ${model} on test machine` }).click()
        await page.getByRole('dialog').getByLabel('Reason').fill('it is slow')
        await page.getByRole('dialog').getByRole('button', { name: 'Read', exact: true }).click()
      }
      await read('a')
      await page.getByRole('alert').getByText('The owner of the node does not let operators read this log').waitFor()
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
      await read('b')
      expect(await page.getByRole('dialog').locator('code').textContent()).toBe('b listens')
      await page.getByRole('heading', { name: 'What the server of b on test machine wrote last' }).waitFor()
      expect(await console.violations()).toEqual([])
      await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click()
    })
  })
})
