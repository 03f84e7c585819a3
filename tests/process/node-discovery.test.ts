import { afterEach, expect, test } from 'bun:test'
import { createServer } from 'node:net'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

/** The first of the discovered ports that is free here. */
async function knownPort(): Promise<number> {
  for (const port of [8000, 8080, 1234, 11434]) {
    const free = await new Promise<boolean>((resolve) => {
      const probe = createServer().once('error', () => resolve(false))
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
    })
    if (free) return port
  }
  throw new Error('every port that discovery looks at is taken')
}

function serve(port: number): FakeNode {
  const server = startFakeNode({ port, models: ['found-by-itself'] })
  undo.push(() => server.stop())
  return server
}

test('§22: a model server that comes after the agent is found, once, and keeps its id', async () => {
  const port = await knownPort()
  const agent = await startLoneAgent({ discover: true, discoverMs: 50 })
  undo.push(() => agent.remove())
  const found = () =>
    agent.node.runtimes.list().filter(({ models }) => models.some(({ id }) => id === 'found-by-itself'))
  expect(found()).toEqual([])
  serve(port)
  await waitUntil('the server to be found', () => found().length > 0)
  const [first] = found()
  // Another one is found by a later look, which sees the first again.
  const other = startFakeNode({ port: await knownPort(), models: ['found-later'] })
  const all = () => agent.node.runtimes.list().flatMap(({ models }) => models.map(({ id }) => id))
  await waitUntil('another server to be found', () => all().includes('found-later'))
  expect(found().length).toBe(1)
  other.stop()
  await agent.stop()
  const { gateway, dataDir } = agent
  // The same server by another name of this machine: it is not found a second time.
  const again = await startLoneAgent({ gateway, dataDir, discover: true, runtimes: [`http://localhost:${port}`] })
  undo.push(() => again.stop())
  const models = again.node.runtimes.list().flatMap((runtime) => runtime.models.map(({ id }) => id))
  expect(models.filter((id) => id === 'found-by-itself')).toHaveLength(1)
  await again.stop()
  const third = await startLoneAgent({ gateway, dataDir, discover: true })
  undo.push(() => third.stop())
  const kept = third.node.runtimes.list().find(({ runtimeId }) => runtimeId === first?.runtimeId)
  expect(kept?.models.map(({ id }) => id)).toEqual(['found-by-itself'])
  // Where a runtime listens stands in no log.
  expect(agent.log()).toContain('runtime_discovered')
  expect(agent.log()).not.toContain(`:${port}`)
})
