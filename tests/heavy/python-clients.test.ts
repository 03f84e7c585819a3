import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { pythonWith, told } from '../support/clients/python.ts'
import { packagesOf, pythonSuites } from '../support/clients/python-suites.ts'
import { chosen } from '../support/clients/suites.ts'
import { startLoopNode } from '../support/clients/tool-loop.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import type { ScriptedNode } from '../support/nodes/scripted-node.ts'

/** Python's clients take many seconds to be imported on a busy machine. */
const slowMs = 480_000

const suites = chosen(pythonSuites)
const pythons = new Map<string, string | null>()
for (const environment of new Set(suites.map((suite) => suite.environment))) {
  const packages = packagesOf(environment)
  const python = await pythonWith(packages)
  if (python === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from PyPI`)
  pythons.set(environment, python)
}

let gateway: TestGateway
let customer: TestCustomer
let nodes: readonly FakeNode[]
/** Its model of the same name calls a tool twice before it answers. */
let looping: TestCustomer
let loop: ScriptedNode
const folder = mkdtempSync(join(tmpdir(), 'penstock-python-'))
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1' } })
  customer = await gateway.customer()
  nodes = [
    startFakeNode({ models: ['m'] }),
    startFakeNode({ models: ['cut'], faults: [{ kind: 'dropMidStream', afterChunks: 2 }] }),
    // A call of a tool would end before a client of a busy machine has left.
    startFakeNode({ models: ['slow'], answer: { chunks: 1_000, intervalMs: 20, toolCalls: 'never' } }),
  ]
  for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })
  looping = await gateway.customer()
  loop = startLoopNode()
  await gateway.node(loop.url, { customerId: looping.customerId })
})
afterAll(async () => {
  for (const node of [...nodes, loop]) node.stop()
  rmSync(folder, { recursive: true })
  await gateway.stop()
})

describe.each(suites.map((suite) => [suite.requirement, suite] as const))('§28: Python’s %s', (name, suite) => {
  const python = pythons.get(suite.environment) ?? null
  const loops = ['agents', 'frameworks', 'proxy'].includes(suite.environment)
  test.skipIf(python === null)(
    'whole, streamed, tools, structured output, its own errors, a stream that is left',
    async () => {
      const slow = nodes.at(-1)
      const leaves = name.startsWith('openai') || name.startsWith('anthropic')
      const aborted = leaves ? slow?.nextAbort() : undefined
      const env = {
        URL: gateway.url,
        OLLAMA_URL: gateway.ollamaUrl ?? '',
        KEY: (loops ? looping : customer).key,
        LLM_USER_PATH: join(folder, 'llm'),
      }
      const facts: Readonly<Record<string, unknown>> = { ...suite.facts, ...suite.failures }
      expect(await told(python ?? '', suite.script, { HOME: folder, ...env })).toEqual(facts)
      if (aborted !== undefined) expect((await aborted).outcome).toBe('aborted')
    },
    slowMs,
  )
})
