import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { pullSource } from '../../src/node/pulls/pull-sources.ts'
import { hasBrowser, launchBrowser } from '../support/console/console.ts'
import { SharedConsoles } from '../support/console/shared-consoles.ts'
import { startTestGateway, type TestGateway } from '../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../support/nodes/agents.ts'
import { ggufFile } from '../support/nodes/gguf-file.ts'
import { type ModelFolder, modelFolder, scriptModel } from '../support/nodes/model-files.ts'
import { type ModelHub, startModelHub } from '../support/nodes/model-hub.ts'

describe.skipIf(!hasBrowser)('§39: pulls in the console', () => {
  let gateway: TestGateway
  let browser: Browser
  let consoles: SharedConsoles
  let hub: ModelHub
  let folder: ModelFolder
  let agent: TestAgent
  /** Gets what is copied. */
  let getter: ModelFolder
  let attic: TestAgent
  beforeAll(async () => {
    hub = startModelHub({ 'tiny-Q4_0.gguf': ggufFile(50_000) })
    folder = modelFolder({ memory_mb: 20_000, models: [] })
    const weights = join(folder.path, 'here.gguf')
    writeFileSync(weights, ggufFile(50_000))
    folder.write({ memory_mb: 20_000, models: [scriptModel('here', {}, { files: [{ path: weights }] })] })
    getter = modelFolder({ memory_mb: 20_000, models: [] })
    gateway = await startTestGateway()
    const { customerId } = await gateway.customer()
    const { enrollment_token: token } = await enrollmentToken(gateway, customerId)
    agent = await startAgent({
      ...{ gatewayUrl: gateway.url, token, runtimes: [], dataDir: folder.path, givesModels: true },
      pulls: {
        sources: [`hf=${hub.url}`].flatMap((text) => pullSource(text) ?? []),
        root: join(folder.path, 'models'),
      },
    })
    await untilState(gateway, agent.nodeId, 'ready')
    await gateway.admin('PATCH', `/v1/admin/nodes/${agent.nodeId}`, { name: 'Den' })
    const other = await enrollmentToken(gateway, customerId)
    attic = await startAgent({
      ...{ gatewayUrl: gateway.url, token: other.enrollment_token, runtimes: [], dataDir: getter.path },
      pulls: { sources: ['nodes'].flatMap((text) => pullSource(text) ?? []), root: join(getter.path, 'models') },
    })
    await untilState(gateway, attic.nodeId, 'live')
    await gateway.admin('PATCH', `/v1/admin/nodes/${attic.nodeId}`, { name: 'Attic' })
    browser = await launchBrowser()
    consoles = new SharedConsoles(browser, gateway)
  })
  afterAll(async () => {
    await browser?.close()
    await agent?.remove()
    await attic?.remove()
    await gateway?.stop()
    hub?.stop()
    folder?.remove()
    getter?.remove()
  })

  test('a person has a model fetched, sees how it goes, and ends it', async () => {
    hub.fault = { stallAfter: 20_000 }
    await consoles.as('operator', async (console) => {
      const { page } = console
      await page.evaluate("location.hash = '#pool'")
      await page.getByRole('button', { name: 'Den', exact: true }).click()
      const fetched = page.getByRole('region', { name: 'Fetched models of Den' })
      await fetched.getByRole('button', { name: 'Pull a model Den' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Model: hf:org/repo:QUANT').fill('hf:org/repo:Q4_0')
      await dialog.getByLabel('Its name in requests').fill('tiny')
      await dialog.getByLabel('Reason').fill('for the den')
      await dialog.getByRole('button', { name: 'Pull a model', exact: true }).click()
      await dialog.waitFor({ state: 'hidden' })
      const row = fetched.getByRole('row', { name: 'tiny' })
      await row.getByText('40 % of 0 GB').waitFor()
      expect(await row.textContent()).toContain('fetching')
      expect(await console.violations()).toEqual([])
      await row.getByRole('button', { name: 'End pull tiny' }).click()
      await dialog.getByLabel('Reason').fill('not now')
      await dialog.getByRole('button', { name: 'End pull', exact: true }).click()
      await row.getByText('cancelled').waitFor()
    })
  })

  test('a person has a model copied to another node, and sees it come there', async () => {
    await consoles.as('operator', async (console) => {
      const { page } = console
      await page.evaluate("location.hash = '#pool'")
      await page.getByRole('button', { name: 'Den', exact: true }).click()
      await page.getByRole('button', { name: 'Copy here on Den' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Other node').fill('Attic')
      await dialog.getByLabel('Name there').fill('copied')
      await dialog.getByLabel('Reason').fill('for the attic')
      await dialog.getByRole('button', { name: 'Copy', exact: true }).click()
      await dialog.waitFor({ state: 'hidden' })
      await page.evaluate("location.hash = '#pool'")
      await page.getByRole('button', { name: 'Attic', exact: true }).click()
      const row = page.getByRole('region', { name: 'Fetched models of Attic' }).getByRole('row', { name: 'copied' })
      await row.getByText('done').waitFor()
      expect(await row.textContent()).toContain(`node:${agent.nodeId}/here`)
      expect(await console.violations()).toEqual([])
    })
  })
})
