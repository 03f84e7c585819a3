import { afterAll, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import { ownAddresses } from '../../src/host/own-addresses.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { commandLine } from './command-line.ts'

const cli = commandLine()
afterAll(() => cli.close())

interface Finding {
  readonly check: string
  readonly state: 'good' | 'note' | 'bad'
  readonly says: string
}

async function findings(env: Readonly<Record<string, string>>) {
  const { code, out } = await cli.run(['doctor', '--json'], { env })
  const { checks } = JSON.parse(out) as { checks: readonly Finding[] }
  return { code, of: (name: string) => checks.find(({ check }) => check === name), checks }
}

test('§24: doctor finds nothing to mend where a start would work, and leaves nothing behind', async () => {
  const env = { SVC_PORT: '0', SVC_BASE_URL: 'http://127.0.0.1:9' }
  const found = await findings(env)
  expect(found.checks.filter(({ state }) => state === 'bad')).toEqual([])
  expect(found.code).toBe(0)
  expect(found.checks.map(({ check }) => check)).toEqual([
    'settings',
    'program',
    'storage',
    'database',
    'port',
    'addresses',
    'descriptors',
    'servers',
    'agent',
    'gateway',
  ])
  for (const { says } of found.checks) expect(says).toMatch(/^[A-Z].*[.]$/s)
  expect(existsSync(join(cli.home, 'data'))).toBe(false)
  const { out } = await cli.run(['doctor'], { env })
  expect(out).toContain('The settings are valid.')
  expect(out).toContain('Nothing here keeps a gateway from starting.')
})

test('§24: doctor says in sentences what keeps a gateway from starting, each with what mends it', async () => {
  writeFileSync(join(cli.home, 'a-file'), '')
  const taken = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('no gateway') })
  const env = {
    SVC_PORT: String(taken.port),
    SVC_DISCOVERY: 'false',
    SVC_DATA_DIR: join(cli.home, 'a-file/data'),
    SVC_BASE_URL: taken.url.origin,
  }
  const { code, of } = await findings(env)
  const { out } = await cli.run(['doctor'], { env })
  await taken.stop(true)
  expect(code).toBe(1)
  expect(out).toMatch(/gateway from working here\.\nDo this first: The data folder .*cannot be written.*\n$/)
  expect(of('settings')).toMatchObject({ state: 'note', says: expect.stringContaining('Did you mean SVC_DISCOVER?') })
  expect(of('storage')).toMatchObject({ state: 'bad', says: expect.stringContaining('cannot be written') })
  expect(of('port')).toMatchObject({ state: 'bad', says: expect.stringContaining('set SVC_PORT') })
  expect(of('gateway')).toMatchObject({ state: 'note', says: expect.stringContaining('not Penstock') })
  const wrong = await findings({ SVC_PORT: 'x', DATABASE_URL: 'postgres://somebody:hidden@127.0.0.1:9/db' })
  expect(wrong.code).toBe(1)
  expect(wrong.of('settings')).toMatchObject({ state: 'bad', says: expect.stringContaining('SVC_PORT must be') })
  expect(wrong.of('database')).toMatchObject({ state: 'bad', says: expect.stringContaining('ECONNREFUSED') })
  expect(JSON.stringify(wrong.checks)).not.toContain('hidden')
})

test('§24: doctor looks at every port that a start takes, in the words of the start', async () => {
  const ollama = Bun.listen({ port: 0, hostname: '127.0.0.1', socket: { data() {} } })
  const { code, of } = await findings({
    SVC_PORT: '0',
    SVC_OLLAMA_LISTEN: `127.0.0.1:${ollama.port}`,
    SVC_BASE_URL: 'http://127.0.0.1:9',
  })
  ollama.stop(true)
  expect(code).toBe(1)
  expect(of('port')?.state).toBe('bad')
  expect(of('port')?.says).toStartWith(`Port ${ollama.port} is in use by process ${process.pid} (`)
  expect(of('port')?.says).toEndWith('. Stop it, or set SVC_OLLAMA_LISTEN to another port.')
})

test('§24: doctor looks at a gateway that runs: its database, and why a node does not answer', async () => {
  await using gateway = await scoped(startTestGateway())
  await using node = await scoped(startFakeNode({ models: ['llama'] }))
  await gateway.node(node.url)
  const { customerId } = await gateway.customer()
  await gateway.admin('POST', '/v1/admin/nodes', {
    ...{ customer_id: customerId, url: 'http://127.0.0.1:9', name: 'attic' },
    ...{ visibility: 'private', node_class: 'standard', privacy_class: 'private' },
  })
  const env = {
    DATABASE_URL: (await testDatabase()).url,
    SVC_BASE_URL: gateway.url,
    SVC_ADMIN_TOKEN: gateway.tokens.viewer,
  }
  const { of } = await findings(env)
  expect(of('database')).toMatchObject({ state: 'good', says: expect.stringMatching(/^PostgreSQL \d+/) })
  expect(of('gateway')).toMatchObject({
    state: 'note',
    says: expect.stringMatching(/1 of 2 nodes answer.* attic: Nothing listens there/),
  })
})

test.skipIf(ownAddresses().length === 0)(
  '§24: doctor asks nobody to open a gateway that other devices reach already, whatever its own settings are',
  async () => {
    const gateway = await startTestGateway({ env: { SVC_HOST: '0.0.0.0' } })
    const closed = await findings({ SVC_PORT: '0', SVC_BASE_URL: 'http://127.0.0.1:9' })
    expect(closed.of('addresses')).toMatchObject({ state: 'note', says: expect.stringContaining('SVC_HOST=0.0.0.0') })
    const url = `http://${ownAddresses()[0]}:${new URL(gateway.url).port}`
    const open = await findings({ SVC_PORT: '0', SVC_BASE_URL: url })
    await gateway.stop()
    expect(open.of('addresses')).toMatchObject({ state: 'good', says: expect.stringContaining(url) })
  },
)
