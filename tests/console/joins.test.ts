import { describe, expect, test } from 'bun:test'
import type { NodeList } from '../../src/protocol/wire/admin/admin.ts'
import type { JoinBegun, JoinRevealed, JoinState } from '../../src/protocol/wire/nodes/join.ts'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { newJoiner } from '../support/nodes/joining.ts'
import { fixture } from '../support/run/fixture.ts'

const path = '/v1/node-agent/join'

const gateway = await fixture(startTestGateway())
await gateway.customer()
const browser = await fixture(launchBrowser())
const consoles = await fixture(new SharedConsoles(browser, gateway))

describe.skipIf(!hasBrowser)('§39: joins in the console', () => {
  const post = async <T>(place: string, body: object) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    return (await (await fetch(gateway.url + place, init)).json()) as T
  }
  /** A computer that waits, with its words. */
  async function waiting(name: string) {
    const joiner = newJoiner()
    const begun = await post<JoinBegun>(path, joiner.request({ name }))
    const { nonce } = await post<JoinRevealed>(`${path}/${begun.join_id}`, { nonce: joiner.nonce })
    const words = joiner.words({ publicKey: begun.public_key_ed25519, nonce })
    const state = async () =>
      ((await (await fetch(`${gateway.url}${path}/${begun.join_id}`)).json()) as JoinState).state
    return { words, state }
  }

  test('a person compares words, confirms one computer and refuses another; a viewer sees neither', async () => {
    const [attic, stranger] = [await waiting('attic'), await waiting('<b>not mine</b>')]
    await consoles.as('operator', async (console) => {
      const { page } = console
      const rows = page.getByRole('region', { name: 'Computers that ask to join' }).first()
      await rows.getByRole('row', { name: attic.words }).waitFor()
      expect(await rows.textContent()).toContain('<b>not mine</b>')
      expect(await console.violations()).toEqual([])
      const dialog = page.getByRole('dialog')
      await rows.getByRole('button', { name: `Confirm ${attic.words}` }).click()
      await dialog.getByText(attic.words).first().waitFor()
      await dialog.getByLabel('Reason').fill('compared')
      await dialog.getByRole('button', { name: 'Confirm', exact: true }).click()
      await dialog.waitFor({ state: 'hidden' })
      await page.getByRole('button', { name: 'attic', exact: true }).waitFor()
      expect(await attic.state()).toBe('confirmed')
      await rows.getByRole('button', { name: `Refuse ${stranger.words}` }).click()
      await dialog.getByLabel('Reason').fill('compared')
      await dialog.getByRole('button', { name: 'Refuse', exact: true }).click()
      await dialog.waitFor({ state: 'hidden' })
      expect(await stranger.state()).toBe('refused')
      const { nodes } = await gateway.admin<NodeList>('GET', '/v1/admin/nodes')
      expect(nodes.map(({ name }) => name)).toEqual(['attic'])
    })

    const next = await waiting('later')
    await consoles.as('viewer', async ({ page }) => {
      await page.getByRole('button', { name: 'attic', exact: true }).waitFor()
      expect(await page.textContent('main')).not.toContain(next.words)
    })
  })

  test('a list that cannot be read is not shown as if no computer asked', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      const refusal = { status: 409, contentType: 'application/problem+json', body: '{"detail":"Locked"}' }
      await page.route('**/v1/admin/joins', (route) => route.fulfill(refusal))
      await console.show('Models')
      await console.show('Pool')
      const failed = page.getByRole('alert').filter({ hasText: 'the computers that ask to join' })
      await failed.waitFor()
      expect(await failed.textContent()).toContain('Locked')
      await page.unroute('**/v1/admin/joins')
      await failed.getByRole('button', { name: 'Try again' }).click()
      await failed.waitFor({ state: 'detached' })
    })
  })
})
