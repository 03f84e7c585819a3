import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { pythonWith, told } from '../support/clients/python.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'

/** Python's clients take many seconds to be imported on a busy machine. */
const slowMs = 180_000
const whole = 'fake-0 fake-1 fake-2 fake-3 fake-4 '
const look = { fake: true }

/** Each client with the version that it was tested with, and what its script tells. */
const clients = [
  [
    'openai==3.54.0',
    'openai_client.py',
    {
      chat: whole,
      chat_stream: whole,
      chat_parsed: 'hello there',
      responses: [whole, 'completed', 5],
      responses_stream: ['response.created', 'response.completed', whole],
      responses_parsed: 'hello there',
      responses_tool: ['look', look],
      responses_after_tool: whole,
      wrong_key: 'invalid_api_key',
      no_model: 'model_not_found',
      cut_stream: 'node_lost',
      cut_responses: ['response.failed', 'server_error'],
    },
  ],
  [
    'anthropic==2.12.0',
    'anthropic_client.py',
    {
      whole: [whole, 'end_turn', 5],
      streamed: [whole, 'end_turn'],
      tool: ['tool_use', 'look', look],
      after_tool: whole,
      structured: { echo: 'hello there' },
      count: true,
      models: ['cut', 'm', 'slow'],
      wrong_key: 401,
      no_model: 404,
      cut_stream: true,
    },
  ],
  [
    'ollama==0.6.3',
    'ollama_client.py',
    { whole, streamed: whole, generated: whole, models: ['cut', 'm', 'slow'], no_model: 404 },
  ],
  [
    'langchain-openai==1.6.7',
    'langchain_client.py',
    {
      chat: whole,
      chat_stream: whole,
      chat_tool: ['look'],
      chat_structured: 'hello there',
      responses: whole,
      responses_stream: whole,
      responses_tool: ['look'],
      responses_structured: 'hello there',
    },
  ],
  [
    'litellm==1.95.0',
    'litellm_client.py',
    {
      openai: whole,
      openai_stream: whole,
      openai_wrong_key: 401,
      anthropic: whole,
      anthropic_stream: whole,
      anthropic_wrong_key: 401,
    },
  ],
  ['llm==0.36', 'llm_client.py', { streamed: `${whole}\n`, whole: `${whole}\n` }],
] as const

/** LiteLLM still wants an older `openai` than the others: it has an environment of its own. */
const isApart = (requirement: string) => requirement.startsWith('litellm')
const together = clients.map(([requirement]) => requirement).filter((requirement) => !isApart(requirement))
const apart = clients.map(([requirement]) => requirement).filter(isApart)
const pythons = new Map<string, string | null>()
for (const packages of [together, apart]) {
  const python = await pythonWith(packages)
  if (python === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from PyPI`)
  for (const requirement of packages) pythons.set(requirement, python)
}

let gateway: TestGateway
let customer: TestCustomer
let nodes: readonly FakeNode[]
const folder = mkdtempSync(join(tmpdir(), 'penstock-python-'))
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1' } })
  customer = await gateway.customer()
  nodes = [
    startFakeNode({ models: ['m'] }),
    startFakeNode({ models: ['cut'], faults: [{ kind: 'dropMidStream', afterChunks: 2 }] }),
    startFakeNode({ models: ['slow'], answer: { chunks: 1_000, intervalMs: 20 } }),
  ]
  for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })
})
afterAll(async () => {
  for (const node of nodes) node.stop()
  rmSync(folder, { recursive: true })
  await gateway.stop()
})

describe.each(clients)('§28: Python’s %s', (requirement, script, expected) => {
  const python = pythons.get(requirement) ?? null
  test.skipIf(python === null)(
    'whole, streamed, tools, structured output, its own errors, a stream that is left',
    async () => {
      const slow = nodes.at(-1)
      const leaves = requirement.startsWith('openai') || requirement.startsWith('anthropic')
      const aborted = leaves ? slow?.nextAbort() : undefined
      const env = {
        URL: gateway.url,
        OLLAMA_URL: gateway.ollamaUrl ?? '',
        KEY: customer.key,
        LLM_USER_PATH: join(folder, 'llm'),
      }
      expect(await told(python ?? '', script, { HOME: folder, ...env })).toEqual(expected)
      if (aborted !== undefined) expect((await aborted).outcome).toBe('aborted')
    },
    slowMs,
  )
})
