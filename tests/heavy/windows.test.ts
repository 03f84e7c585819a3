import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { type AddressInfo, createConnection, createServer } from 'node:net'
import { join } from 'node:path'
import { version } from '../../package.json'
import { builtFiles } from '../../scripts/release/built-files.ts'
import { buildExecutable } from '../../scripts/release/executable.ts'
import { runtimeOf, targets } from '../../scripts/release/runtimes.ts'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { enrollmentToken } from '../support/nodes/agents.ts'
import { emptyDatabase } from '../support/run/postgres.ts'
import { runsWine, Windows } from '../support/windows/wine.ts'

/**
 * The executable of Windows under Wine, as far as Wine carries it. Nobody of us has run it on Windows itself. Its PostgreSQL:
 * `windows-database.test.ts`.
 */
const buildMs = 600_000
const slowMs = 300_000

let windows: Windows
let program: string
let node: FakeNode
let gateway: TestGateway

beforeAll(async () => {
  if (!runsWine) return
  windows = new Windows()
  program = join(windows.folder, 'penstock.exe')
  const target = targets.find(({ name }) => name === 'windows-x64')
  if (target === undefined) throw new Error('no such target')
  await buildExecutable({
    files: await builtFiles(),
    outfile: program,
    target: target.bunTarget,
    runtime: runtimeOf(target),
  })
  windows.prepareBun()
  node = startFakeNode({ models: ['m'] })
  gateway = await startTestGateway()
}, buildMs)

afterAll(async () => {
  windows?.stop()
  await gateway?.stop()
  node?.stop()
})

const start = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  windows.start([program, ...words], env)
const output = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  windows.output([program, ...words], env)

/** Where Wine keeps what a program of Windows calls C:\\users\\NAME\\AppData\\Local. */
const localData = () => {
  const users = join(windows.drive, 'users')
  const [name = ''] = [process.env.USER ?? '', 'root'].filter((user) => existsSync(join(users, user, 'AppData/Local')))
  return join(users, name, 'AppData/Local')
}

test.skipIf(!runsWine)(
  '§39: the executable of Windows says its version, its help and what its system lacks',
  async () => {
    expect((await output(['--version'])).out.trim()).toBe(version)
    expect((await output(['help'])).out).toContain('Usage: penstock COMMAND')
    const { out, code } = await output(['service', 'install', '--dry-run'])
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^Would write C:\\users\\\w+\\AppData\\Local\\penstock\\penstock\.task\.xml/),
    ])
    expect(out).toContain('schtasks /Create /TN penstock')
    windows.ran('--version, help, service install --dry-run')
  },
  slowMs,
)

test.skipIf(!runsWine)(
  '§39: the agent on Windows joins by a token, and the gateway chats through its tunnel',
  async () => {
    const customer = await gateway.customer()
    const token = await enrollmentToken(gateway, customer.customerId)
    const agent = start([
      ...['node', '--gateway', gateway.url, '--token', token.enrollment_token, '--listen', '127.0.0.1:0'],
      ...['--no-discover', '--runtime', node.url, '--json'],
    ])
    await firstMatch(agent.stdout, /"node_id":"([^"]+)"/)
    const answer = async () =>
      postJson(`${gateway.url}/v1/chat/completions`, customer.key, {
        model: 'm',
        stream: true,
        messages: [{ role: 'user', content: 'hi' }],
      })
    await waitFor('the node', async () => (await answer()).status === 200)
    expect(await (await answer()).text()).toContain('data: [DONE]')
    const keys = join(localData(), 'penstock/node')
    expect(existsSync(join(keys, 'identity.json'))).toBe(true)
    const again = await output(['node', 'status', '--json'])
    expect(JSON.parse(again.out)).toMatchObject({ gateway_url: gateway.url })
    agent.kill('SIGKILL')
    await agent.exited
    windows.ran('node with a token, its tunnel, a streamed chat, node status')
  },
  slowMs,
)

/** A port before a Unix socket, which Windows does not have as PostgreSQL uses it. */
function portBefore(socketPath: string): { readonly port: number; stop(): void } {
  const server = createServer((client) => {
    const database = createConnection(socketPath)
    client.pipe(database).pipe(client)
    for (const socket of [client, database]) socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  return { port: (server.address() as AddressInfo).port, stop: () => server.close() }
}

test.skipIf(!runsWine)(
  '§39: the gateway on Windows migrates a PostgreSQL, serves, and knows its first key',
  async () => {
    const database = await emptyDatabase()
    const url = new URL(database.url)
    const relay = portBefore(join(url.searchParams.get('host') ?? '', '.s.PGSQL.5432'))
    url.searchParams.delete('host')
    url.hostname = '127.0.0.1'
    url.port = String(relay.port)
    const words = ['TOKEN_PEPPER', 'SECRETS_KEY', 'AUDIT_KEY', 'ROUTER_KEY', 'WEBHOOK_KEY', 'LOG_KEY']
    const secrets = Object.fromEntries(words.map((name, at) => [`SVC_${name}`, String(at + 1).repeat(64)]))
    const env = { ...secrets, DATABASE_URL: url.href, SVC_BOOTSTRAP: 'true', SVC_PORT: '0', SVC_DISCOVER: 'false' }
    const child = start(['serve'], { ...env, SVC_DATA_DIR: 'C:\\penstock', SVC_LOG_LEVEL: 'error' })
    try {
      const [, base = ''] = await firstMatch(child.stdout, /OpenAI base (http:\S+)\/v1\s/)
      const kept = join(windows.drive, 'penstock/credentials.json')
      const { gateway_key: key } = JSON.parse(readFileSync(kept, 'utf8')) as { gateway_key: string }
      const models = await fetch(`${base}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
      expect(models.status).toBe(200)
      windows.ran('serve with a PostgreSQL, its migrations, first start, models')
    } finally {
      child.kill('SIGKILL')
      await child.exited
      relay.stop()
      await database.drop()
    }
  },
  slowMs,
)

test.skipIf(!runsWine)(
  '§39: the gateway on Windows without a PostgreSQL says what to set',
  async () => {
    const { err, code } = await output(['serve'], { SVC_PORT: '0', SVC_DISCOVER: 'false' })
    expect([code, err]).toEqual([1, expect.stringContaining('Set DATABASE_URL=')])
    windows.ran('serve without DATABASE_URL')
  },
  slowMs,
)
