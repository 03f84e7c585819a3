import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FakeNode, startFakeNode } from '../../src/fake-node/fake-node.ts'
import type { Credentials } from '../../src/host/data-folder.ts'
import { start } from '../../src/main.ts'
import { postJson } from '../support/clients/post-json.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { isAlive, isFree, type NpmStart, npmStart, processesOf } from '../support/gateways/npm-start.ts'
import { fresh, type ProcessGateway, startProcesses } from '../support/gateways/processes.ts'
import { testLimitMs } from '../support/run/limits.ts'
import { npmTest } from '../support/run/npm-test.ts'
import { prepareFolder } from '../support/run/prepared-folder.ts'

/** Processes that this one has started and that run. */
function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

const socketsIn = (folder: string) => readdirSync(folder).filter((name) => /^penstock-[A-Za-z0-9]{6}$/.test(name))

describe('§33: npm start with SVC_PROCESSES', () => {
  let dataDir: string
  let port: number
  let started: NpmStart | null = null
  const begin = (env: Readonly<Record<string, string>> = {}) => {
    started = npmStart({
      SVC_DATA_DIR: dataDir,
      SVC_PORT: String(port),
      SVC_PROCESSES: '2',
      SVC_DISCOVER: 'false',
      SVC_WARM_UP: 'false',
      SVC_SHUTDOWN_GRACE_MS: '1500',
      ...env,
    })
    return started
  }
  beforeAll(async () => {
    dataDir = await prepareFolder(realpathSync(mkdtempSync(join(tmpdir(), 'penstock-processes-'))))
    port = freePort()
  })
  afterEach(async () => {
    started?.kill('SIGTERM')
    await started?.exited
    started = null
  })
  afterAll(() => {
    const home = existsSync(join(dataDir, 'postgres')) ? realpathSync(join(dataDir, 'postgres')) : null
    if (home !== null) rmSync(home, { recursive: true, force: true })
    rmSync(dataDir, { recursive: true, force: true })
  })
  const credentials = () => JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8')) as Credentials
  const ask = async () => {
    const response = await postJson(
      `http://127.0.0.1:${port}/v1/api/chat/completions`,
      credentials().gateway_key,
      { model: 'demo/wordplay', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] },
      fresh,
    )
    await response.text()
    return response.status
  }

  npmTest(
    'one first start, one port, one log, one end without orphans',
    async () => {
      // Its own: other tests start processes at the same time. PostgreSQL, who is somebody else, has to reach it.
      const scratch = mkdtempSync(join(tmpdir(), 'p-'))
      chmodSync(scratch, 0o755)
      const first = begin({ TMPDIR: scratch })
      await first.ready()
      expect(socketsIn(scratch)).toHaveLength(1)
      const lines = () =>
        first
          .output()
          .split('\n')
          .filter((text) => text.startsWith('{'))
          .map((text) => JSON.parse(text) as { event: string; process?: number })
      const answering = () =>
        new Set(lines().flatMap(({ event, process: by }) => (event === 'request' && by !== undefined ? [by] : [])))
      // Each connection goes to one of the two: that both answered is a matter of a few.
      await waitFor('an answer of each process', async () => {
        expect(await ask()).toBe(200)
        return answering().size === 2
      })
      expect(first.output().match(/Try it:/g)).toHaveLength(1)
      expect(credentials().base_url).toBe(`http://127.0.0.1:${port}`)
      const { gateway, postmaster } = processesOf(dataDir)
      const children = childrenOf(gateway ?? 0)
      first.kill('SIGTERM')
      expect(await first.exited).toEqual({ code: 0, signal: null })
      for (const pid of [gateway, ...children]) expect(isAlive(pid ?? 0)).toBe(false)
      await waitFor('the end of PostgreSQL', () => !isAlive(postmaster ?? 0))
      expect(await isFree(port)).toBe(true)
      expect(socketsIn(scratch)).toEqual([])
      rmSync(scratch, { recursive: true, force: true })
    },
    testLimitMs,
  )

  npmTest('SIGHUP replaces the processes one after the other, and none of them is missed', async () => {
    const first = begin({ SVC_LOG_LEVEL: 'warn' })
    await first.ready()
    const { gateway } = processesOf(dataDir)
    const programs = () =>
      childrenOf(gateway ?? 0).filter((pid) => readFileSync(`/proc/${pid}/cmdline`).includes('main.ts'))
    const before = programs()
    expect(before).toHaveLength(2)
    process.kill(gateway ?? 0, 'SIGHUP')
    const statuses = new Set<number>()
    await waitFor('other processes', async () => {
      statuses.add((await fetch(`http://127.0.0.1:${port}/readyz`, fresh)).status)
      const now = programs()
      return now.length === 2 && now.every((pid) => !before.includes(pid))
    })
    expect([...statuses]).toEqual([200])
    expect(await ask()).toBe(200)
    expect([processesOf(dataDir).gateway, before.filter(isAlive)]).toEqual([gateway, []])
  })

  npmTest('in a terminal SIGHUP ends all of them: the terminal is gone', async () => {
    const child = Bun.spawn([process.execPath, join(import.meta.dir, '../../src/main.ts')], {
      terminal: { data: () => {} },
      env: {
        PATH: process.env.PATH ?? '',
        HOME: process.env.HOME ?? '/',
        BUN_CONFIG_MAX_HTTP_REQUESTS: '65535',
        SVC_DATA_DIR: dataDir,
        SVC_PORT: String(port),
        SVC_PROCESSES: '2',
        SVC_DISCOVER: 'false',
        SVC_WARM_UP: 'false',
        SVC_SHUTDOWN_GRACE_MS: '1500',
      },
    })
    await waitFor('readiness', async () => {
      const response = await fetch(`http://127.0.0.1:${port}/readyz`, fresh).catch(() => null)
      return response?.status === 200
    })
    const children = childrenOf(child.pid)
    child.kill('SIGHUP')
    expect(await child.exited).toBe(0)
    // The keeper of the database sees a moment later that the gateway has ended.
    await waitFor('the end of all', () => children.every((pid) => !isAlive(pid)))
  })

  npmTest(
    'a supervisor that is killed takes its processes with it, and the next one starts',
    async () => {
      const first = begin({ SVC_LOG_LEVEL: 'warn' })
      await first.ready()
      const { gateway } = processesOf(dataDir)
      const children = childrenOf(gateway ?? 0).filter((pid) =>
        readFileSync(`/proc/${pid}/cmdline`).includes('main.ts'),
      )
      expect(children).toHaveLength(2)
      process.kill(gateway ?? 0, 'SIGKILL')
      await waitFor('the end of all', () => children.every((pid) => !isAlive(pid)))
      await first.exited
      const second = begin({ SVC_LOG_LEVEL: 'warn' })
      await second.ready()
      expect(await ask()).toBe(200)
    },
    testLimitMs,
  )

  npmTest(
    'a port that is taken ends the start in plain words',
    async () => {
      using _taken = Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } })
      const { code } = await begin().exited
      expect(code).toBe(1)
      expect(started?.output()).toContain(`Port ${port} is in use`)
    },
    testLimitMs,
  )
})

describe('§33: processes of one gateway', () => {
  let several: ProcessGateway
  let node: FakeNode
  let key: string
  beforeAll(async () => {
    several = await startProcesses()
    node = startFakeNode({ models: ['m'] })
    const { gateway } = several
    const customer = await gateway.customer()
    key = customer.key
    await gateway.node(node.url, { customerId: customer.customerId })
    await waitFor('the node everywhere', async () => {
      const statuses = await Promise.all(Array.from({ length: 16 }, () => ask()))
      return statuses.every((status) => status === 200)
    })
  })
  afterAll(async () => {
    await several.gateway.stop()
    node.stop()
  })

  async function ask(more: object = {}): Promise<number> {
    const response = await several.gateway.chat(
      key,
      { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more },
      fresh,
    )
    await response.text()
    return response.status
  }

  test('one that is killed is started again, and the other serves meanwhile', async () => {
    const { server } = several
    const [, victim = 0] = server.pids
    process.kill(victim, 'SIGKILL')
    await waitFor('another process', () => server.pids.length === 2 && !server.pids.includes(victim))
    expect(await ask()).toBe(200)
  })

  test('no setting of another form, and no peer address that two would share', async () => {
    const faulty = (env: Record<string, string>) => start({ ...several.gateway.env, ...env }, { quiet: true })
    for (const text of ['0', '65', 'two', '1.5', '-1'])
      expect(faulty({ SVC_PROCESSES: text })).rejects.toThrow('SVC_PROCESSES must be')
    const peer = { SVC_PORT: '7070', SVC_PEER_URL: 'http://10.0.0.2:7070', SVC_CLUSTER_SECRET: 'sixteen-characters' }
    expect(faulty({ SVC_PROCESSES: '2', ...peer })).rejects.toThrow('SVC_PEER_URL must name a port')
  })
})
