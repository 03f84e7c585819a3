import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type CollectorWork, collectorWork, readCollections } from '../gateways/collector-log.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import { firstMatch, spawnGateway } from '../gateways/gateway-process.ts'
import { enrollmentToken, startAgent, untilState } from '../nodes/agents.ts'
import { type CollectedKind, chatPath, collectedKinds, type Kind, type Payer, type Place } from './collected-kinds.ts'

export interface CollectedPool {
  /** So many requests of this kind, a few at a time, each with a prompt of its own; throws unless all are answered well. */
  ask(kind: CollectedKind, requests: number): Promise<void>
  /** What the gateway's collector did meanwhile. */
  collected(work: () => Promise<void>): Promise<CollectorWork>
  stop(): Promise<void>
}

/** What is under way at a collection is alive, so the fewer, the closer the count comes to what should not be. */
const connections = 8
const open = { min_privacy_class: 'public' as const }
const limits = { daily_token_quota: 1_000_000_000_000, rate_limit_rpm: 1_000_000, max_concurrency: 1_000 }
const creditWei = 10n ** 24n
const prompt = 'Tell me of the lock keepers. '.repeat(16)

/** The gateway and who asks it. What must end is added to `ends`. */
interface World {
  readonly gateway: TestGateway
  readonly customers: Readonly<Record<Payer, TestCustomer>>
  readonly ends: (() => Promise<void>)[]
}

const script = resolve(import.meta.dir, '../nodes/quick-node-process.ts')

async function quickNode({ ends }: World, models: readonly string[], slots = 0): Promise<string> {
  const child = Bun.spawn([process.execPath, script, JSON.stringify(models), String(slots)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  ends.push(async () => {
    child.kill('SIGKILL')
    await child.exited
  })
  return (await firstMatch(child.stdout, /listening at (\S+)/))[1] ?? ''
}

async function ownNode(world: World, models: readonly string[], { slots = 0, of = 'free' as Payer } = {}) {
  const { customerId } = world.customers[of]
  await world.gateway.node(await quickNode(world, models, slots), { customerId })
}

/** Where a kind's requests are answered. */
const places: Readonly<Record<Place, (world: World) => Promise<void>>> = {
  own: (world) => ownNode(world, ['quick', 'quick-embedding']),
  two: async (world) => {
    await ownNode(world, ['two'])
    await ownNode(world, ['two'])
  },
  limited: (world) => ownNode(world, ['limited'], { of: 'limited' }),
  few: (world) => ownNode(world, ['few'], { slots: 2 }),
  sold: async (world) => {
    const { gateway, customers } = world
    await gateway.node(await quickNode(world, ['paid']), { visibility: 'public', privacyClass: 'public' })
    await gateway.admin('PUT', '/v1/admin/models', { id: 'paid', completion_token_price_wei: '1000' })
    const credits = `/v1/admin/customers/${customers.payer.customerId}/credits`
    await gateway.admin('POST', credits, { amount_wei: creditWei.toString() })
  },
  dialled: async (world) => {
    const { gateway, customers, ends } = world
    const { enrollment_token: token } = await enrollmentToken(gateway, customers.free.customerId)
    const runtimes = [await quickNode(world, ['dialled'])]
    const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes })
    ends.push(() => agent.remove())
    await untilState(gateway, agent.nodeId, 'ready')
  },
}

function startLoggedGateway(logFile: string): Promise<TestGateway> {
  const env = {
    BUN_JSC_logGC: '1',
    SVC_LOG_LEVEL: 'info',
    SVC_POLL_INTERVAL_MS: '1000',
    SVC_ADMIN_RPM_PER_TOKEN: '1000000',
  }
  return startTestGateway({
    env,
    launch: async (given) => {
      const log = openSync(logFile, 'a')
      try {
        return await spawnGateway(given, log)
      } finally {
        closeSync(log)
      }
    },
  })
}

async function startWorld(logFile: string, kinds: readonly CollectedKind[]): Promise<World> {
  const gateway = await startLoggedGateway(logFile)
  const policies = { policy: open, keyPolicy: open }
  const customers = {
    free: await gateway.customer(policies),
    payer: await gateway.customer(policies),
    limited: await gateway.customer({ policy: { ...open, ...limits }, keyPolicy: open }),
  }
  const world = { gateway, customers, ends: [] }
  for (const place of new Set(kinds.map((name): Place => collectedKinds[name].place))) await places[place](world)
  return world
}

function bodyOf({ path, body }: Kind, at: number): string {
  const text = `${at} ${prompt}`
  const messages = [{ role: 'user', content: text }]
  return JSON.stringify({
    ...body,
    ...(path === chatPath || path.endsWith('/messages') ? { messages } : { input: text }),
  })
}

async function askOnce({ gateway, customers }: World, name: CollectedKind, at: number): Promise<void> {
  const kind: Kind = collectedKinds[name]
  const response = await fetch(`${gateway.url}${kind.path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customers[kind.by ?? 'free'].key}`, 'content-type': 'application/json' },
    body: bodyOf(kind, at),
  })
  const text = await response.text()
  if (response.status !== 200 || !text.includes(kind.end)) throw new Error(`${name}: ${response.status} ${text}`)
}

/** A gateway in a process of its own whose collector says what it does, and what these kinds of requests need. */
export async function startCollectedPool(kinds: readonly CollectedKind[]): Promise<CollectedPool> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-collected-'))
  const logFile = join(folder, 'gateway.log')
  const world = await startWorld(logFile, kinds)
  let at = 0
  return {
    ask: async (name, requests) => {
      let left = requests
      const client = async () => {
        while (left-- > 0) await askOnce(world, name, at++)
      }
      await Promise.all(Array.from({ length: connections }, client))
    },
    collected: async (work) => {
      const { size } = statSync(logFile)
      await work()
      return collectorWork(readCollections(readFileSync(logFile).subarray(size).toString('latin1')))
    },
    stop: async () => {
      for (const end of world.ends.reverse()) await end()
      await world.gateway.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
