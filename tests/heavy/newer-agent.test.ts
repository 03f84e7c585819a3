import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { Checkout } from '../support/releases/checkout.ts'
import {
  hasCode,
  keptReleases,
  makeAgentFolder,
  makeCheckout,
  makeDataFolder,
} from '../support/releases/kept-release.ts'
import { chat, isReady } from '../support/releases/traffic.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/** Today's agent at the gateways of the last releases: somebody has fetched `agent.mjs` before the gateway was upgraded. */
const here = resolve(import.meta.dir, '../..')
const work = mkdtempSync(join(tmpdir(), 'penstock-newer-agent-'))
afterAll(() => rmSync(work, { recursive: true, force: true }))

for (const release of keptReleases()) {
  const { name } = release
  const lacking = hasCode(release) ? '' : ` (SKIPPED: this clone lacks ${release.commit}; git fetch --unshallow)`
  const suite = hasCode(release) ? describe : describe.skip
  suite(`a newer agent at a gateway of ${name}${lacking}`, () => {
    test('its status is taken, and it answers', async () => {
      const old = new Checkout(join(work, `${name}-code`), join(work, name))
      makeCheckout(release, old.root)
      await makeDataFolder(release, old.dataDir)
      const gateway = await old.startGateway()
      const server = startFakeNode({ models: ['signed'] })
      const today = new Checkout(here, join(work, `${name}-today`))
      makeAgentFolder(release, today.agentDir, gateway.url, server.url)
      const agent = await today.startAgent(server.url)
      try {
        expect(agent.nodeId).toBe(release.nodes.agent)
        await waitUntil('the agent', isReady(gateway, agent.nodeId))
        for (const stream of [false, true])
          expect(await chat(gateway, release.ada.key, 'signed', stream)).toMatch(/^0x[0-9a-f]{64}$/)
      } finally {
        await agent.stop()
        server.stop()
        await gateway.stop()
      }
    })
  })
}
