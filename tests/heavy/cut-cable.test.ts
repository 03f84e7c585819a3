import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { waitFor } from '../support/gateways/gateway.ts'
import { makeNamespaces, type Namespaces } from '../support/gateways/namespaces.ts'
import { fakeServerUrl, penstock, startTwoMachines, type TwoMachines } from '../support/nodes/two-machines.ts'

const streamsProgram = resolve(import.meta.dir, '..', 'support', 'clients', 'streams-client.ts')
const elsewhereUrl = 'http://127.0.0.1:8001'
const streams = 20
const chunkMs = 250
const minutes = 60_000
const made = makeNamespaces(`psc${process.pid}`)
const refusal = typeof made === 'string' ? made : ''
/** What a stream may end with whose node has gone (§6). */
const lost = ['node_lost', 'stream_idle_timeout']

describe.skipIf(refusal !== '')(`the cable between two machines is pulled ${refusal && `(${refusal})`}`.trim(), () => {
  let machines: TwoMachines
  let home = ''

  const nodeAtHome = () => machines.admin<{ state: string; in_flight: number }>(`/v1/admin/nodes/${home}`)
  const untilState = (state: string) =>
    waitFor(`home is ${state}`, async () => (await nodeAtHome()).state === state, 2 * minutes)
  /** A new request of nobody's choice; resolves with its text. */
  const chat = () =>
    machines.curl(
      'gateway',
      `${machines.baseUrl}/v1/api/chat/completions`,
      ...['-N', '-H', `authorization: Bearer ${machines.credentials().gateway_key}`],
      ...['-H', 'content-type: application/json', '-d'],
      '{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}',
    )

  beforeAll(async () => {
    machines = await startTwoMachines(made as Namespaces, ['m'])
    const listen = ['--listen', new URL(elsewhereUrl).host, '--speaks', 'vllm', '--name', 'elsewhere-', '--json']
    await machines.begin('gateway', penstock('fake-node', '--model', 'm', ...listen), /"url"/)
    home = await machines.enrollHome()
    await machines.run('gateway', penstock('nodes', 'add', elsewhereUrl))
  }, 2 * minutes)
  afterAll(() => machines.stop(), minutes)

  for (const { seconds, state } of [
    { seconds: 1, state: null },
    { seconds: 20, state: 'stale' },
    { seconds: 60, state: 'offline' },
  ]) {
    test(
      `§8: for ${seconds} s`,
      async () => {
        const chunks = Math.ceil(((seconds + 20) * 1_000) / chunkMs)
        await machines.curl('home', `${fakeServerUrl}/answer`, '-d', JSON.stringify({ chunks, intervalMs: chunkMs }))
        const key = machines.credentials().gateway_key
        const client = ['bun', streamsProgram, `${machines.baseUrl}/v1/api`, key, 'm', home, String(streams)]
        const { child } = await machines.begin('gateway', client, /opened/)
        const told = new Response(child.stderr).text()
        expect((await nodeAtHome()).in_flight).toBe(streams)

        const cutAtMs = performance.now()
        machines.net.cable('down')
        if (state !== null) {
          await untilState(state)
          // Known to be away: nobody waits for it.
          const text = await chat()
          expect(text).toContain('elsewhere-')
          expect(text).toContain('data: [DONE]')
        }
        await Bun.sleep(Math.max(0, seconds * 1_000 - (performance.now() - cutAtMs)))
        machines.net.cable('up')

        const { ends } = JSON.parse(await told) as { ends: readonly string[] }
        expect(ends).toHaveLength(streams)
        if (seconds === 1) expect(new Set(ends)).toEqual(new Set(['stop']))
        else for (const end of ends) expect(['stop', ...lost]).toContain(end)
        if (seconds === 60) expect(ends).not.toContain('stop')
        await untilState('ready')
        await waitFor('nothing is counted any more', async () => (await nodeAtHome()).in_flight === 0)
        const open = async () =>
          (JSON.parse(await machines.curl('home', `${fakeServerUrl}/stats`)) as { openRequests: number }).openRequests
        await waitFor('the server at home works for nobody', async () => (await open()) === 0, minutes)
      },
      5 * minutes,
    )
  }
})
