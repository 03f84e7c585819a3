import { afterAll, afterEach, expect } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '../../src/db/client.ts'
import { startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Credentials } from '../../src/host/data-folder.ts'
import { type PostInit, postJson } from '../support/clients/post-json.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { isAlive, isFree, type NpmStart, npmStart, processesOf } from '../support/gateways/npm-start.ts'
import { fixture } from '../support/run/fixture.ts'
import { npmTest as test } from '../support/run/npm-test.ts'
import { stopwatch } from '../support/run/stopwatch.ts'

const graceMs = 5_000

let started: NpmStart[] = []

/** In the test's one data folder unless told otherwise. */
function begin(env: Readonly<Record<string, string>> = {}): NpmStart {
  const made = npmStart({
    SVC_DATA_DIR: dataDir,
    SVC_PORT: String(port),
    SVC_DISCOVER: 'false',
    SVC_WARM_UP: 'false',
    SVC_LOG_LEVEL: 'warn',
    SVC_POLL_INTERVAL_MS: '200',
    SVC_SHUTDOWN_GRACE_MS: String(graceMs),
    ...env,
  })
  started.push(made)
  return made
}

afterAll(() => {
  const { gateway, postmaster } = processesOf(dataDir)
  for (const pid of [gateway, postmaster]) if (pid !== null) process.kill(pid, 'SIGKILL')
  const home = existsSync(join(dataDir, 'postgres')) ? realpathSync(join(dataDir, 'postgres')) : null
  if (home !== null) rmSync(home, { recursive: true, force: true })
  rmSync(dataDir, { recursive: true, force: true })
})
const dataDir = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-start-')))
const port = freePort()
const url = `http://127.0.0.1:${port}`
const node = await fixture(startFakeNode({ models: ['m'] }))
afterEach(async () => {
  for (const one of started) one.kill('SIGTERM')
  await Promise.all(started.map(({ exited }) => exited))
  started = []
})

const credentials = () => JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Credentials
const secretsOf = ({ base_url: _url, customer_id: _id, ...secrets }: Credentials) => Object.values(secrets)

function chat(body: object, init: PostInit = {}): Promise<Response> {
  return postJson(
    `${url}/v1/api/chat/completions`,
    credentials().gateway_key,
    { messages: [{ role: 'user', content: 'hi' }], ...body },
    init,
  )
}

async function admin(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method,
    headers: { 'x-svc-admin-token': credentials().admin_token, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  expect(response.status).toBeLessThan(300)
  return (await response.json()) as Record<string, unknown>
}

async function addFakeNode(): Promise<void> {
  const { customer_id } = credentials()
  await admin('POST', '/v1/admin/nodes', {
    customer_id,
    url: node.url,
    visibility: 'private',
    privacy_class: 'private',
    node_class: 'gpu',
  })
}

const servesFakeNode = () => waitFor('the node', async () => (await chat({ model: 'm' })).status === 200)

/** Gateway, PostgreSQL and port: nothing of them is left. */
async function expectAllEnded(gateway: number, postmaster: number): Promise<void> {
  expect(isAlive(gateway)).toBe(false)
  // It has let go of its memory when the gateway takes it for ended, and may be a moment from its end.
  await waitFor('the end of PostgreSQL', () => !isAlive(postmaster))
  expect(existsSync(join(dataDir, 'postgres/data/postmaster.pid'))).toBe(false)
  expect(await isFree(port)).toBe(true)
}

function running(): { gateway: number; postmaster: number } {
  const { gateway, postmaster } = processesOf(dataDir)
  if (gateway === null || postmaster === null) throw new Error('not running')
  return { gateway, postmaster }
}

test('§25: the first start makes the credentials and prints a curl line that streams as pasted', async () => {
  const first = begin()
  await first.ready()

  expect(statSync(join(dataDir, 'credentials.json')).mode & 0o777).toBe(0o600)
  expect(credentials().base_url).toBe(url)
  expect(first.output()).toContain(`${url}/docs`)
  const line = first
    .output()
    .split('\n')
    .find((text) => text.startsWith('curl '))
  const { stdout, exitCode } = Bun.spawnSync(['bash', '-c', line ?? 'false'], { stderr: 'ignore' })
  expect(exitCode).toBe(0)
  expect(stdout.toString()).toEndWith('data: [DONE]\n\n')
  expect(stdout.toString()).toContain('"model":"demo/')

  const pids = running()
  first.kill('SIGTERM')
  await first.exited
  await expectAllEnded(pids.gateway, pids.postmaster)
})

test('§25: a later start keeps the keys and prints no secret; Ctrl-C ends everything', async () => {
  const before = credentials()
  const second = begin()
  await second.ready()

  expect(credentials()).toEqual(before)
  for (const secret of secretsOf(before)) expect(second.output()).not.toContain(secret)
  expect(second.output()).toContain(join(dataDir, 'credentials.json'))
  const list = await fetch(`${url}/v1/api/models`, { headers: { authorization: `Bearer ${before.gateway_key}` } })
  expect(list.status).toBe(200)
  await addFakeNode()
  await servesFakeNode()

  const pids = running()
  second.killGroup('SIGINT')
  await second.exited
  await expectAllEnded(pids.gateway, pids.postmaster)
})

test('§1: SIGTERM lets a stream finish within the grace, and ends a longer one with server_shutdown', async () => {
  const server = begin()
  await server.ready()
  await servesFakeNode()
  const untilReleased = { chunks: 2, intervalMs: 30_000 }
  node.setAnswer(untilReleased)
  const short = await chat({ model: 'm', stream: true })
  node.setAnswer({ chunks: 1_000, intervalMs: 30 })
  const long = await chat({ model: 'm', stream: true })
  node.setAnswer(untilReleased)
  const whole = chat({ model: 'm', max_tokens: 10 })
  await waitFor('all calls', () => node.stats().openRequests === 3)
  const pids = running()

  server.kill('SIGTERM')
  const tookMs = stopwatch()
  node.release()
  expect(await short.text()).toEndWith('data: [DONE]\n\n')
  const answered = await whole
  expect(answered.status).toBe(200)
  expect(await answered.json()).toMatchObject({ object: 'chat.completion' })
  const text = await long.text()
  expect(tookMs()).toBeGreaterThan(graceMs / 2)
  expect(text).toContain('"finish_reason":"error"')
  expect(text).toContain('"code":"server_shutdown"')
  expect(text).not.toContain('[DONE]')
  await server.exited
  await waitFor('the node to hear of it', () => node.stats().openRequests === 0)
  await expectAllEnded(pids.gateway, pids.postmaster)
  node.setAnswer({ chunks: 5, intervalMs: 0 })
})

test('§14: kill -9 of the gateway: the next start takes PostgreSQL over, keys work, no written receipt is lost', async () => {
  const killed = begin()
  await killed.ready()
  await servesFakeNode()
  const ids: (string | null)[] = []
  for (let at = 0; at < 5; at++) {
    const response = await chat({ model: 'm' })
    ids.push(response.headers.get('x-request-id'))
    await response.text()
  }
  const home = realpathSync(join(dataDir, 'postgres'))
  const password = readFileSync(join(dataDir, 'postgres-password'), 'utf8').trim()
  const socket = encodeURIComponent(join(home, 'socket'))
  const receipts = async () => {
    const sql = connect(`postgres://penstock:${password}@localhost:5432/penstock?host=${socket}`, { max: 1 })
    try {
      return (await sql`select request_id from receipts where request_id in ${sql(ids.map(String))}`).length
    } finally {
      await sql.end()
    }
  }
  await waitFor('the receipts to be written', async () => (await receipts()) === 5)
  const { gateway, postmaster } = running()
  process.kill(gateway, 'SIGKILL')
  expect((await killed.exited).code).not.toBe(0)
  expect(isAlive(postmaster)).toBe(true)

  const next = begin()
  await next.ready()
  expect(running().postmaster).toBe(postmaster)
  await servesFakeNode()
  expect(await receipts()).toBe(5)
  next.kill('SIGINT')
  await next.exited
  await expectAllEnded(gateway, postmaster)
})

test('§25: wrong settings: all faults at once, no values, exit code 1, nothing is made', async () => {
  const folder = join(dataDir, 'never-made')
  const wrong = begin({
    SVC_DATA_DIR: folder,
    SVC_PORT: 'port-of-mine',
    SVC_DEMO: 'sometimes',
    SVC_POLL_INTERVAL_MS: '1',
  })
  expect((await wrong.exited).code).toBe(1)
  for (const name of ['SVC_PORT', 'SVC_DEMO', 'SVC_POLL_INTERVAL_MS']) expect(wrong.output()).toContain(name)
  for (const value of ['port-of-mine', 'sometimes']) expect(wrong.output()).not.toContain(value)
  expect(existsSync(folder)).toBe(false)
})

test('a port in use: says which, exits with 1, and leaves no PostgreSQL behind', async () => {
  const taken = Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } })
  try {
    const refused = begin()
    expect((await refused.exited).code).toBe(1)
    expect(refused.output()).toContain(`${port}`)
    expect(refused.output()).toContain('SVC_PORT')
    expect(processesOf(dataDir)).toEqual({ gateway: null, postmaster: null })
  } finally {
    taken.stop(true)
  }
})

test('§25: a second gateway on the folder, and one with another folder on the port, are refused', async () => {
  const running = begin()
  await running.ready()
  const sameFolder = begin({ SVC_PORT: '0' })
  expect((await sameFolder.exited).code).toBe(1)
  expect(sameFolder.output()).toContain('Another gateway')

  const other = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-start-other-')))
  try {
    const samePort = begin({ SVC_DATA_DIR: other })
    expect((await samePort.exited).code).toBe(1)
    expect(samePort.output()).toContain('SVC_PORT')
    // Nothing was made that a later start would have to keep.
    expect(existsSync(join(other, 'postgres'))).toBe(false)
  } finally {
    rmSync(other, { recursive: true, force: true })
  }
})

test('a signal while it starts ends everything, too', async () => {
  const cut = begin()
  await waitFor('PostgreSQL', () => processesOf(dataDir).postmaster !== null)
  const { postmaster } = processesOf(dataDir)
  cut.kill('SIGTERM')
  await cut.exited
  await waitFor('the end of PostgreSQL', () => !isAlive(postmaster ?? 0))
  expect(processesOf(dataDir)).toEqual({ gateway: null, postmaster: null })
})
