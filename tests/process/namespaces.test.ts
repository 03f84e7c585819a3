import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { waitFor } from '../support/gateways/gateway.ts'
import { makeNamespaces, type Namespaces } from '../support/gateways/namespaces.ts'
import { fakeServerUrl, startTwoMachines, type TwoMachines } from '../support/nodes/two-machines.ts'

const clientProgram = resolve(import.meta.dir, '..', 'support', 'gateways', 'namespace-client.ts')
const made = makeNamespaces(`pst${process.pid}`)
const refusal = typeof made === 'string' ? made : ''

describe.skipIf(refusal !== '')(`two machines as network namespaces ${refusal && `(${refusal})`}`.trim(), () => {
  let machines: TwoMachines
  let nodeId = ''

  beforeAll(async () => {
    machines = await startTwoMachines(made as Namespaces, ['m-home'])
  })
  afterAll(() => machines.stop())

  test('§22: the one line makes the other machine a node, though it can be reached by nobody', async () => {
    nodeId = await machines.enrollHome()
    expect(nodeId).toStartWith('node_')
    const listening = (await machines.run('home', ['cat', '/proc/net/tcp', '/proc/net/tcp6']))
      .split('\n')
      .map((row) => row.trim().split(/\s+/))
      .filter((row) => row[3] === '0A')
    expect(listening.length).toBeGreaterThanOrEqual(2)
    for (const row of listening) expect(row[1]).toStartWith('0100007F:')
    for (const closed of [7_071, 8_000]) {
      const asked = machines.curl('gateway', `http://${machines.net.homeAddress}:${closed}/`)
      await expect(asked).rejects.toThrow(/refused|connect/i)
    }
  })

  test("§22: chat, stream and cancel through the tunnel, by OpenAI's own client", async () => {
    await machines.curl('home', `${fakeServerUrl}/answer`, '-d', '{"chunks":20,"intervalMs":20}')
    const key = machines.credentials().gateway_key
    const told = await machines.run('gateway', ['bun', clientProgram, `${machines.baseUrl}/v1/api`, key, 'm-home'])
    const [chat, stream, cancel] = told
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as Record<string, unknown>)
    expect(chat).toMatchObject({ did: 'chat', text: expect.stringMatching(/fake-/) })
    expect(stream).toMatchObject({ did: 'stream', pieces: 20, finish: 'stop', text: expect.stringMatching(/fake-/) })
    expect(cancel).toEqual({ did: 'cancel', seen: 3 })
    const stats = async () => JSON.parse(await machines.curl('home', `${fakeServerUrl}/stats`)) as object
    const gone = { abortedStreams: 1, openRequests: 0, openStreams: 0 }
    await waitFor('the server knows that the client left', async () => Bun.deepMatch(gone, await stats()))
    expect(await machines.admin<object>(`/v1/admin/nodes/${nodeId}`)).toMatchObject({ in_flight: 0, state: 'ready' })
  })

  test('§12: on the machine itself documents are ranked, for the local token and for a gateway key', async () => {
    const folder = join(machines.dir, 'home', '.local/share/penstock/node')
    const { local_token } = JSON.parse(readFileSync(join(folder, 'local-token.json'), 'utf8')) as {
      readonly local_token: string
    }
    const body = JSON.stringify({ model: 'lexical/bm25', query: 'b', documents: ['a', 'b'], top_n: 1 })
    const rank = async (token: string) => {
      const headers = ['-H', `authorization: Bearer ${token}`, '-H', 'content-type: application/json']
      return JSON.parse(await machines.curl('home', 'http://127.0.0.1:7071/v1/rerank', ...headers, '-d', body))
    }
    const ranked = { results: [{ index: 1, relevance_score: expect.any(Number) }] }
    expect(await rank(local_token)).toEqual(ranked)
    expect(await rank(machines.credentials().gateway_key)).toEqual(ranked)
    expect(await rank(`${local_token.slice(0, -1)}!`)).toMatchObject({ code: 'invalid_credentials' })
    expect(readdirSync(folder)).toContain('identity.json')
  })
})
