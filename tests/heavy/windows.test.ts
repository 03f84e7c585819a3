import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { version } from '../../package.json'
import { builtFiles } from '../../scripts/release/built-files.ts'
import { buildExecutable } from '../../scripts/release/executable.ts'
import { runtimeOf, targets } from '../../scripts/release/runtimes.ts'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { enrollmentToken } from '../support/nodes/agents.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

/**
 * The executable of Windows under Wine, as far as Wine carries it. Nobody of us has run it on Windows itself: what passes here says that the
 * program has no need of another system, not that Windows treats it as Wine does. Wine 8 lacks one library that Bun asks for random bytes;
 * the test makes it from five lines of C.
 */
const wine = ['/usr/lib/wine/wine64', '/usr/bin/wine64'].find((path) => existsSync(path)) ?? null
const compiler =
  ['x86_64-w64-mingw32-gcc-win32', 'x86_64-w64-mingw32-gcc'].find((name) => Bun.which(name) !== null) ?? null
const runs = wine !== null && compiler !== null && process.platform === 'linux' && process.arch === 'x64'
if (!runs) console.log('skipped: Wine and MinGW are not here (apt-get install wine64 gcc-mingw-w64-x86-64-win32)')
const buildMs = 600_000
const slowMs = 300_000

const library = `#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
`

let folder: string
let program: string
let node: FakeNode
let gateway: TestGateway
const children: Bun.Subprocess[] = []
const seen: string[] = []

beforeAll(async () => {
  if (!runs) return
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-windows-')))
  program = join(folder, 'penstock.exe')
  const target = targets.find(({ name }) => name === 'windows-x64')
  if (target === undefined) throw new Error('no such target')
  await buildExecutable({
    files: await builtFiles(),
    outfile: program,
    target: target.bunTarget,
    runtime: runtimeOf(target),
  })
  const source = join(folder, 'random.c')
  writeFileSync(source, library)
  const dll = join(folder, 'bcryptprimitives.dll')
  expect(Bun.spawnSync([compiler ?? '', '-shared', '-o', dll, source, '-ladvapi32']).exitCode).toBe(0)
  node = startFakeNode({ models: ['m'] })
  gateway = await startTestGateway()
}, buildMs)

afterAll(async () => {
  if (!runs) return
  for (const child of children) child.kill('SIGKILL')
  const server = Bun.which('wineserver') ?? '/usr/lib/wine/wineserver64'
  // Its own processes outlive the programs that it ran.
  Bun.spawnSync([server, '-k'], { env: { WINEPREFIX: join(folder, 'wine') } })
  await gateway.stop()
  node.stop()
  console.log(`ran under Wine: ${seen.join('; ')}`)
  rmSync(folder, { recursive: true, force: true })
})

function start(words: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn([wine ?? '', program, ...words], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder, WINEPREFIX: join(folder, 'wine'), WINEDEBUG: '-all', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  return child
}

async function output(words: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = start(words, env)
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { out, err, code }
}

/** Where Wine keeps what a program of Windows calls C:\\users\\NAME\\AppData\\Local. */
const localData = () => {
  const users = join(folder, 'wine/drive_c/users')
  const [name = ''] = [process.env.USER ?? '', 'root'].filter((user) => existsSync(join(users, user, 'AppData/Local')))
  return join(users, name, 'AppData/Local')
}

test.skipIf(!runs)(
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
    seen.push('--version, help, service install --dry-run')
  },
  slowMs,
)

test.skipIf(!runs)(
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
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] }),
      })
    await waitFor('the node', async () => (await answer()).status === 200)
    expect(await (await answer()).text()).toContain('data: [DONE]')
    const keys = join(localData(), 'penstock/node')
    expect(existsSync(join(keys, 'identity.json'))).toBe(true)
    const again = await output(['node', 'status', '--json'])
    expect(JSON.parse(again.out)).toMatchObject({ gateway_url: gateway.url })
    agent.kill('SIGKILL')
    await agent.exited
    seen.push('node with a token, its tunnel, a streamed chat, node status')
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

test.skipIf(!runs)(
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
      const kept = join(folder, 'wine/drive_c/penstock/credentials.json')
      const { gateway_key: key } = JSON.parse(readFileSync(kept, 'utf8')) as { gateway_key: string }
      const models = await fetch(`${base}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
      expect(models.status).toBe(200)
      seen.push('serve with a PostgreSQL, its migrations, first start, models')
    } finally {
      child.kill('SIGKILL')
      await child.exited
      relay.stop()
      await database.drop()
    }
  },
  slowMs,
)

test.skipIf(!runs)(
  '§39: the gateway on Windows without a PostgreSQL says what to set',
  async () => {
    const { err, code } = await output(['serve'], { SVC_PORT: '0', SVC_DISCOVER: 'false' })
    expect([code, err]).toEqual([1, expect.stringContaining('Set DATABASE_URL=')])
    seen.push('serve without DATABASE_URL')
  },
  slowMs,
)
