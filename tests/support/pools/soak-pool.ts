import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createPrivateJobs, type PrivateJobsClient } from '../../../src/client/private-jobs.ts'
import { type OpenDatabase, openDatabase } from '../../../src/db/client.ts'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { type HostileGateway, startGatewayWithPulse } from '../../hostile/world/hostile-gateway.ts'
import { freePort } from '../gateways/free-port.ts'
import type { TestCustomer } from '../gateways/gateway.ts'
import { firstMatch } from '../gateways/gateway-process.ts'
import { processesOf } from '../gateways/npm-start.ts'
import { embeddedUrl } from '../gateways/watched-gateway.ts'
import { enrollmentToken, startAgent, type TestAgent, untilState } from '../nodes/agents.ts'

/** A model server in a process of its own, to be killed. */
interface KillableNode {
  readonly url: string
  /** `kill -9`, and another at the same address after a while. */
  kill(): Promise<void>
  stop(): Promise<void>
}

const root = resolve(import.meta.dir, '../../..')
const awayMs = 500

async function startKillableNode(models: readonly string[]): Promise<KillableNode> {
  const port = freePort()
  const options = JSON.stringify({ port, models, answer: { chunks: 12, firstTokenMs: 5, intervalMs: 4 } })
  const run = async () => {
    const child = Bun.spawn([process.execPath, join(root, 'tests/support/nodes/fake-node-process.ts'), options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await firstMatch(child.stdout, /listening at/)
    return child
  }
  let child = await run()
  const end = async () => {
    child.kill('SIGKILL')
    await child.exited
  }
  return {
    url: `http://127.0.0.1:${port}`,
    kill: async () => {
      await end()
      await Bun.sleep(awayMs)
      child = await run()
    },
    stop: end,
  }
}

export interface SoakPool {
  readonly gateway: HostileGateway
  readonly customer: TestCustomer
  readonly payer: TestCustomer
  readonly jobs: PrivateJobsClient
  readonly agent: TestAgent
  /** The embedded database, from outside. */
  readonly database: OpenDatabase
  killNode(at: number): Promise<void>
  /** `kill -9` of PostgreSQL; the gateway starts it again. */
  killDatabase(): void
  /** Stops all. The processes that are left although they should not be. */
  stop(): Promise<readonly string[]>
}

const open = { min_privacy_class: 'public' } as const
const creditWei = 10n ** 18n

/** What a command line shows of this folder, the place of its database and these addresses. */
function commandLines(marks: readonly string[]): readonly string[] {
  const lines: string[] = []
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    const file = `/proc/${pid}/cmdline`
    try {
      const line = existsSync(file) ? readFileSync(file, 'utf8').replaceAll('\0', ' ') : ''
      if (marks.some((mark) => line.includes(mark))) lines.push(`${pid} ${line}`)
    } catch {
      // It has ended meanwhile.
    }
  }
  return lines
}

async function startGateway(dataDir: string): Promise<HostileGateway> {
  return startGatewayWithPulse({
    // None is given: the gateway makes its own, as `npm start` does.
    DATABASE_URL: '',
    SVC_DATA_DIR: dataDir,
    SVC_DEMO: 'never',
    SVC_LOG_LEVEL: 'warn',
    SVC_METRICS_PUBLIC: 'true',
    SVC_POLL_INTERVAL_MS: '1000',
    SVC_ADMIN_RPM_PER_TOKEN: '1000000',
    SVC_PUBLIC_RPM_PER_IP: '1000000',
  })
}

/** One gateway with its own PostgreSQL, machines of two customers, an agent that has dialled in, and one who pays. */
export async function startSoakPool(): Promise<SoakPool> {
  const dataDir = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-soak-')))
  const gateway = await startGateway(dataDir)
  const policies = { policy: open, keyPolicy: open }
  const [customer, payer, seller] = [
    await gateway.customer(policies),
    await gateway.customer(policies),
    await gateway.customer(policies),
  ]
  const nodes = await Promise.all([['a', 'b'], ['a', 'c'], ['paid']].map(startKillableNode))
  const [first, second, paid] = nodes as [KillableNode, KillableNode, KillableNode]
  for (const { url } of [first, second]) await gateway.node(url, { customerId: customer.customerId })
  await gateway.node(paid.url, { customerId: seller.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: creditWei.toString() })
  const runtime: FakeNode = startFakeNode({ models: ['sealed'], answer: { chunks: 5 } })
  const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [runtime.url] })
  await untilState(gateway, agent.nodeId, 'ready', 20_000)
  const database = openDatabase({ url: embeddedUrl(dataDir), connectionsMax: 2 })
  const home = realpathSync(join(dataDir, 'postgres'))
  return {
    gateway,
    customer,
    payer,
    agent,
    database,
    jobs: createPrivateJobs({ baseUrl: gateway.url, ...customer }),
    killNode: async (at) => nodes[at % nodes.length]?.kill(),
    killDatabase: () => {
      const { postmaster } = processesOf(dataDir)
      if (postmaster !== null) process.kill(postmaster, 'SIGKILL')
    },
    stop: async () => {
      await agent.remove()
      runtime.stop()
      await database.close()
      await gateway.stop()
      await Promise.all(nodes.map((node) => node.stop()))
      const left = commandLines([dataDir, home])
      for (const folder of [dataDir, home]) rmSync(folder, { recursive: true, force: true })
      return left
    },
  }
}
