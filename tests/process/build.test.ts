import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { bundleAgent } from '../../src/actors/agents/agent-bundle.ts'
import { bundleConsole } from '../../src/actors/console/console-page.ts'
import { drawCharts } from '../../src/actors/console/statecharts.ts'
import { bundleVerifyPage } from '../../src/actors/console/verify-page.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { MachineList } from '../../src/protocol/wire/admin/inspect.ts'
import { newToken, sha256Hex } from '../../src/secrets.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { startTestGateway, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { scoped } from '../support/run/fixture.ts'
import { openFolder } from '../support/run/open-folder.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

/** The program in one file, in a folder without anything else and with an environment without anything else. */
const root = resolve(import.meta.dir, '../..')
let dir = ''
let program = ''
const children: Bun.Subprocess[] = []

beforeAll(async () => {
  dir = openFolder('penstock-build-')
  program = join(dir, 'penstock')
  const built = Bun.spawn([process.execPath, join(root, 'scripts/build.ts'), '--out', program], {
    cwd: root,
    stdout: 'pipe',
    stderr: 'inherit',
  })
  expect(await new Response(built.stdout).text()).toMatch(/\d+ MB\n$/)
  expect(await built.exited).toBe(0)
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await Promise.all(children.map(({ exited }) => exited))
  rmSync(dir, { recursive: true, force: true })
})

function run(args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = Bun.spawn([program, ...args], {
    cwd: dir,
    // Whose launcher this is, is nothing to a program that was built.
    env: { HOME: dir, PENSTOCK_LAUNCHER: '1 /no/program', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  return child
}

async function output(args: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const child = run(args, env)
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(`${args.join(' ')}: ${err}`)
  return out
}

const secrets = {
  SVC_TOKEN_PEPPER: 'pepper',
  SVC_SECRETS_KEY: 'secrets',
  SVC_AUDIT_KEY: 'audit',
  SVC_WEBHOOK_KEY: '33'.repeat(32),
  SVC_LOG_KEY: '77'.repeat(32),
  SVC_ROUTER_KEY: '22'.repeat(32),
  SVC_LOG_LEVEL: 'warn',
  SVC_POLL_INTERVAL_MS: '100',
}

/** Launches the built program where the test gateway would run in this process. */
async function launch(env: Readonly<Record<string, string>>) {
  const child = run(['serve'], env)
  const [, url = ''] = await firstMatch(child.stdout, /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/)
  return {
    url,
    stop: async () => {
      child.kill('SIGTERM')
      expect(await child.exited).toBe(0)
    },
  }
}

test('the built program migrates, serves, and stops in order, with nothing but DATABASE_URL', async () => {
  expect(readdirSync(dir)).toEqual(['penstock'])
  await using database = await scoped(emptyDatabase())
  const admin = newToken('admin')
  await using node = await scoped(startFakeNode({ models: ['m'] }))
  await using server = await scoped(
    launch({
      ...secrets,
      DATABASE_URL: database.url,
      SVC_ADMIN_TOKENS: admin,
      SVC_PORT: '0',
      SVC_DRAIN_MS: '300',
    }),
  )
  const cli = { SVC_BASE_URL: server.url, SVC_ADMIN_TOKEN: admin }
  const made = JSON.parse(await output(['customers', 'create', 'Ann', '--json'], cli)) as { customer_id: string }
  const key = JSON.parse(await output(['keys', 'create', 'k', '--customer', made.customer_id, '--json'], cli)) as {
    gateway_key: string
  }
  await output(['nodes', 'add', node.url, '--customer', made.customer_id], cli)
  const chat = { ...cli, SVC_GATEWAY_KEY: key.gateway_key }
  await waitFor('the node', async () => (await output(['status'], cli)).includes('1 ready'))
  expect(await output(['chat', 'm', 'Hello'], chat)).toContain('fake-')
  // As the container asks for its health.
  expect(await output(['status'], { SVC_BASE_URL: server.url })).toContain('ready')
  for (const path of [
    '/docs',
    '/docs/api',
    '/docs/integrators',
    '/docs/images/docs.png',
    '/docs/assets/docs.js',
    '/docs/assets/swagger-ui-bundle.js',
    '/docs/assets/swagger-ui.css',
    '/openapi.json',
    '/readyz',
  ]) {
    const response = await fetch(server.url + path)
    expect({ path, status: response.status, empty: (await response.bytes()).length === 0 }).toEqual({
      path,
      status: 200,
      empty: false,
    })
  }
  const agent = await (await fetch(`${server.url}/v1/node-agent/agent.mjs`)).bytes()
  expect(sha256Hex(agent)).toBe(sha256Hex(await bundleAgent()))
  const file = join(dir, 'backup.sql.gz')
  await output(['backup', file], { ...secrets, DATABASE_URL: database.url })
  expect(existsSync(file)).toBe(true)
})

test('what the program logs goes to standard error, a JSON object a line; what a person reads to standard output', async () => {
  const database = await emptyDatabase()
  const child = run(['serve'], {
    ...secrets,
    SVC_LOG_LEVEL: 'info',
    DATABASE_URL: database.url,
    SVC_ADMIN_TOKENS: newToken('admin'),
    SVC_PORT: '0',
    SVC_DRAIN_MS: '300',
  })
  const errors = new Response(child.stderr).text()
  await firstMatch(child.stdout, /OpenAI base (http:\/\/\S+?)\/v1(?:\/api)?\s/)
  child.kill('SIGTERM')
  await child.exited
  const lines = (await errors).trim().split('\n')
  expect(lines.map((line) => (JSON.parse(line) as { event: string }).event)).toContain('listening')
  await database.drop()
})

test('§23: the built program serves the console and the statecharts that the checkout makes', async () => {
  await using gateway = await scoped(startTestGateway({ launch }))
  const made = await bundleConsole()
  const page = await fetch(`${gateway.url}/console`)
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  const html = await page.text()
  expect(html).toBe(new TextDecoder().decode(made.get('index.html')))
  const named = [...html.matchAll(/(?:(?:src|href)="console\/assets\/|data-seal=")([^"]+)"/g)].map(
    ([, name = '']) => name,
  )
  expect(named.toSorted()).toEqual([...made.keys()].filter((name) => name !== 'index.html').toSorted())
  const types = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml' }
  for (const name of named) {
    const response = await fetch(`${gateway.url}/console/assets/${name}`)
    const type = response.headers.get('content-type')
    const sha256 = sha256Hex(await response.bytes())
    expect({ name, status: response.status, type, sha256 }).toEqual({
      name,
      status: 200,
      type: types[name.split('.').at(-1) as keyof typeof types],
      sha256: sha256Hex(made.get(name) ?? ''),
    })
  }
  for (const name of ['index.html', 'none.js']) {
    const { status } = await fetch(`${gateway.url}/console/assets/${name}`)
    expect({ name, status }).toEqual({ name, status: 404 })
  }
  const proofs = await (await fetch(`${gateway.url}/verify`)).text()
  expect(proofs).toBe(new TextDecoder().decode((await bundleVerifyPage()).get('index.html')))
  const { machines } = await gateway.admin<MachineList>('GET', '/v1/admin/machines')
  const drawn = await drawCharts()
  expect(machines.map(({ machine, title, about, svg }) => ({ machine, title, about, svg }))).toEqual(
    drawn.map(({ graph, title, about, svg }) => ({ machine: graph.id, title, about, svg })),
  )
})

test('without DATABASE_URL it says what to set, and reads no settings from its working folder', async () => {
  await Bun.write(join(dir, '.env'), 'DATABASE_URL=postgres://nobody@127.0.0.1:1/none')
  const child = run(['serve'], { SVC_DATA_DIR: join(dir, 'data'), SVC_PORT: '0' })
  expect(await new Response(child.stderr).text()).toContain('Set DATABASE_URL=')
  expect(await child.exited).toBe(1)
})

test('§26: several processes share one port and one database', async () => {
  const port = freePort()
  let first: TestGateway | null = null
  let second: TestGateway | null = null
  try {
    first = await startTestGateway({ launch, env: { SVC_PORT: String(port) } })
    second = await startTestGateway({ launch, beside: first, env: { SVC_PORT: String(port) } })
    const { key } = await first.customer()
    const answers = await Promise.all(
      Array.from({ length: 40 }, () =>
        fetch(`http://127.0.0.1:${port}/v1/api/models`, {
          headers: { authorization: `Bearer ${key}`, connection: 'close' },
        }),
      ),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    // One leaves, the other goes on.
    await second.stop()
    second = null
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
  } finally {
    await second?.stop()
    await first?.stop()
  }
})
