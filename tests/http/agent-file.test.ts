import { expect, test } from 'bun:test'
import { createAgentBundle } from '../../src/actors/agents/agent-bundle.ts'
import { sha256Hex } from '../../src/secrets.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'

const path = '/v1/node-agent/agent.mjs'

const gateway = await fixture(startTestGateway({ SVC_PUBLIC_RPM_PER_IP: '4' }))

test('§22: the agent is one file, named by its hash; who has it already is told so; strangers are slowed down', async () => {
  const first = await gateway.ask('GET', path)
  expect(first.status).toBe(200)
  expect(first.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  expect(first.headers.get('x-request-id')).toMatch(/^req_/)
  const bytes = new Uint8Array(await first.arrayBuffer())
  const etag = first.headers.get('etag') ?? ''
  expect(etag).toBe(`"${sha256Hex(bytes)}"`)
  const again = await gateway.ask('GET', path, { headers: { 'if-none-match': etag } })
  expect([again.status, await again.text()]).toEqual([304, ''])
  expect((await gateway.ask('GET', path, { headers: { 'if-none-match': '"other"' } })).status).toBe(200)
  await gateway.ask('GET', path)
  expect((await gateway.ask('GET', path)).status).toBe(429)
})

test('§22: every gateway of one version serves the same bytes, and they name no folder of the machine', async () => {
  const [one, two] = await Promise.all([createAgentBundle().file(), createAgentBundle().file()])
  expect(one.sha256).toBe(two.sha256)
  const text = Buffer.from(one.bytes).toString()
  expect(text).not.toContain(process.cwd())
  expect(text).not.toContain(import.meta.dir)
})
