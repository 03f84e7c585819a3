import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { type CompiledProgram, compiled, type Language, toldBy } from '../support/clients/compiled.ts'
import { compiledSuites } from '../support/clients/compiled-suites.ts'
import { startLoopNode } from '../support/clients/tool-loop.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import type { ScriptedNode } from '../support/nodes/scripted-node.ts'

/** A virtual machine of Java takes many seconds to start on a busy machine. */
const runMs = 480_000
const programs = new Map<Language, CompiledProgram | null>()
for (const language of new Set(compiledSuites.map((suite) => suite.language))) {
  const program = await compiled(language)
  if (typeof program === 'string') console.log(`skipped: ${program}`)
  programs.set(language, typeof program === 'string' ? null : program)
}

let gateway: TestGateway
let customer: TestCustomer
let loop: ScriptedNode
let slow: FakeNode
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1' } })
  customer = await gateway.customer()
  loop = startLoopNode()
  // A call of a tool would end before a client of a busy machine has left.
  slow = startFakeNode({ models: ['slow'], answer: { chunks: 1_000, intervalMs: 20, toolCalls: 'never' } })
  for (const { url } of [loop, slow]) await gateway.node(url, { customerId: customer.customerId })
})
afterAll(async () => {
  loop.stop()
  slow.stop()
  await gateway.stop()
})

describe.each(compiledSuites.map((suite) => [suite.requirement, suite] as const))('§35: %s', (_name, suite) => {
  const program = programs.get(suite.language) ?? null
  test.skipIf(program === null)(
    'a tool loop of three turns, whole and streamed, its own errors, a stream that is left',
    async () => {
      if (program === null) return
      const aborted = slow.nextAbort()
      const env = { URL: gateway.url, OLLAMA_URL: gateway.ollamaUrl ?? '', KEY: customer.key }
      expect(await toldBy(program, suite.client, env)).toEqual({ ...suite.facts, ...suite.failures })
      expect((await aborted).outcome).toBe('aborted')
    },
    runMs,
  )
})
