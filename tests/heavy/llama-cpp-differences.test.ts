import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { postJson } from '../support/clients/post-json.ts'
import { type Difference, documentedDifferences } from '../support/differences/documented.ts'
import { type Leaves, leavesOf, leavesOfStream } from '../support/differences/leaves.ts'
import { type Compared, comparedRequests } from '../support/differences/requests.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type LlamaServer, llamaPython, startLlamaServer } from '../support/nodes/llama-server.ts'

/**
 * The same requests straight to llama.cpp's own server and through a whole gateway. What the server answers must come
 * through as it is, but for what docs/compatibility.md names; what the gateway adds is not looked at.
 */
const python = await llamaPython()
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

interface Served {
  readonly server: LlamaServer
  readonly model: string
}

describe.skipIf(python === null)('§35: what comes through beside what llama.cpp itself answers', () => {
  let gateway: TestGateway
  let customer: TestCustomer
  const served = new Map<Compared['purpose'], Served>()
  const seen = new Set<string>()
  beforeAll(async () => {
    gateway = await startTestGateway()
    customer = await gateway.customer()
    for (const purpose of ['chat', 'embed', 'rank'] as const) {
      const server = await startLlamaServer(python ?? '', { contextTokens: 1_024, slots: 1, purpose })
      await gateway.node(server.url, { customerId: customer.customerId })
      const { data } = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] }
      served.set(purpose, { server, model: data[0]?.id ?? '' })
    }
  }, 120_000)
  afterAll(async () => {
    await gateway?.stop()
    for (const { server } of served.values()) await server.stop()
  })

  async function ask(base: string, { path, body }: Compared, model: string): Promise<Leaves> {
    const response = await postJson(
      base + path,
      customer.key,
      { model, ...body },
      { headers: { connection: 'close' }, keepalive: false },
    )
    const text = await response.text()
    const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    return { status_code: String(response.status), ...(streamed ? leavesOfStream(text) : leavesOf(JSON.parse(text))) }
  }

  /** Of what the server says alike twice, in a cache that is warm. */
  async function differences(compared: Compared): Promise<readonly Difference[]> {
    const { server, model } = served.get(compared.purpose) ?? { server: null, model: '' }
    if (server === null) throw new Error('no server')
    const known =
      model
        .split('/')
        .at(-1)
        ?.replace(/\.gguf$/, '') ?? ''
    await ask(server.url, compared, model)
    const direct = await ask(server.url, compared, model)
    const again = await ask(server.url, compared, model)
    const through = await ask(gateway.url, compared, known)
    const statuses = [direct.status_code ?? '', through.status_code ?? ''] as const
    return Object.entries(direct)
      .filter(([place, value]) => again[place] === value && through[place] !== value)
      .map(([place, value]) => ({ compared, place, direct: value, through: through[place], statuses }))
  }

  test.each(comparedRequests.map((each) => [each.path, each.name, each] as const))(
    '%s: %s',
    async (_, __, compared) => {
      const faults = (await differences(compared)).filter((difference) => {
        const documented = documentedDifferences.find((each) => each.covers(difference))
        if (documented !== undefined) seen.add(documented.row)
        return documented === undefined
      })
      expect(faults.map(({ place, direct, through }) => ({ place, direct, through }))).toEqual([])
    },
  )

  test('each documented difference was met, and stands in docs/compatibility.md', async () => {
    expect(documentedDifferences.map(({ row }) => row).filter((row) => !seen.has(row))).toEqual([])
    const document = await Bun.file(join(import.meta.dir, '../../docs/compatibility.md')).text()
    expect(documentedDifferences.map(({ row }) => row).filter((row) => !document.includes(`| ${row} |`))).toEqual([])
  })
})
