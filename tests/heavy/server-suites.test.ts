import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type LlamaServer, llamaPython, startLlamaServer } from '../support/nodes/llama-server.ts'
import { ollamaSuite } from '../support/server-suites/ollama.ts'
import { llamaSuite, serverSuites } from '../support/server-suites/server-suites.ts'
import { askServer, type Body, type SuiteCase } from '../support/server-suites/suite-case.ts'

/**
 * The suites of llama.cpp's server and of Ollama's doors for OpenAI's clients, as far as they need only an address: each case straight
 * to llama.cpp's own server, which shows that it is written as the suite means it, and through a whole gateway.
 */
const python = await llamaPython()
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

describe.skipIf(python === null)('§35: the suites of servers, through the gateway', () => {
  let gateway: TestGateway
  let customer: TestCustomer
  const served = new Map<SuiteCase['purpose'], { readonly server: LlamaServer; readonly model: string }>()
  beforeAll(async () => {
    gateway = await startTestGateway()
    customer = await gateway.customer()
    for (const purpose of ['chat', 'embed', 'rank'] as const) {
      const server = await startLlamaServer(python ?? '', { contextTokens: 1_024, slots: 2, purpose })
      await gateway.node(server.url, { customerId: customer.customerId })
      const { data } = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] }
      const file = data[0]?.id.split('/').at(-1) ?? ''
      served.set(purpose, { server, model: file.replace(/\.gguf$/, '') })
    }
  }, 240_000)
  afterAll(async () => {
    await gateway?.stop()
    for (const { server } of served.values()) await server.stop()
  })

  const asking =
    (base: string, model: string) =>
    (path: string, body: Body | null, coding?: 'zstd'): ReturnType<typeof askServer> =>
      askServer(base, path, customer.key, body === null ? null : { model, ...body }, coding)

  test.each(llamaSuite.map((each) => [each.purpose, each.name, each] as const))('%s: %s', async (purpose, _, each) => {
    const { server, model } = served.get(purpose) ?? { server: null, model: '' }
    expect(await each.run(asking(server?.url ?? '', model))).toEqual(each.server ?? each.expected)
    expect(await each.run(asking(gateway.url, model))).toEqual(each.through?.facts ?? each.expected)
  })

  // Ollama's own tests look at what its doors make of a request, so here the gateway's doors alone are asked.
  test.each(ollamaSuite.map((each) => [each.name, each] as const))('as Ollama’s doors: %s', async (_, each) => {
    const { model } = served.get(each.purpose) ?? { model: '' }
    expect(await each.run(asking(gateway.url, model))).toEqual(each.through?.facts ?? each.expected)
  })
})

test('what the gateway answers otherwise stands in docs/compatibility.md', async () => {
  const document = await Bun.file(join(import.meta.dir, '../../docs/compatibility.md')).text()
  const rows = serverSuites.flatMap(({ cases }) => cases.flatMap(({ through }) => through?.row ?? []))
  expect(rows.filter((row) => !document.includes(`| ${row} |`))).toEqual([])
})
