import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { devNull, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startTestGateway } from '../gateways/gateway.ts'
import { firstMatch, type GatewayProcess, spawnGateway } from '../gateways/gateway-process.ts'
import { countedEnvironment, HeapCounter, type HeapCounts, madeEach } from '../run/heap-counting.ts'

/** A chat of the pool. `words`: of a stream, each in a read of its own; absent: the answer comes whole. */
export interface CountedAsk {
  readonly words?: number
}

export interface CountedPool {
  /** What the gateway makes for each of so many such requests, by type. */
  made(ask: CountedAsk, requests: number): Promise<HeapCounts>
  stop(): Promise<void>
}

/** Several, so that what the gateway makes by time is shared by many requests. */
const connections = 16
const open = { min_privacy_class: 'public' as const }
const prompt = 'Tell me of the lock keepers. '.repeat(16)
const nodeScript = resolve(import.meta.dir, '../nodes/quick-node-process.ts')
/** What is polled in between is not a request's. */
const pollIntervalMs = '10000'

/** A gateway as it is shipped, in a process of its own whose collector never runs, and a node that answers at once. */
export async function startCountedPool(): Promise<CountedPool> {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-counted-'))
  const node = Bun.spawn([process.execPath, nodeScript, JSON.stringify(['quick', 'paced'])], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const nodeUrl = (await firstMatch(node.stdout, /listening at (\S+)/))[1] ?? ''
  const programs: GatewayProcess[] = []
  const gateway = await startTestGateway({
    env: { ...countedEnvironment(folder), SVC_LOG_LEVEL: 'info', SVC_POLL_INTERVAL_MS: pollIntervalMs },
    launch: async (given) => {
      const log = openSync(devNull, 'w')
      try {
        const program = await spawnGateway(given, log)
        programs.push(program)
        return program
      } finally {
        closeSync(log)
      }
    },
  })
  const customer = await gateway.customer({ policy: open, keyPolicy: open })
  await gateway.node(nodeUrl, { customerId: customer.customerId })
  const counter = new HeapCounter(programs[0]?.pid ?? 0, folder)
  let at = 0
  const askOnce = async ({ words }: CountedAsk) => {
    const messages = [{ role: 'user', content: `${at++} ${prompt}` }]
    const how = words === undefined ? { model: 'quick' } : { model: 'paced', stream: true, max_tokens: words }
    const response = await gateway.chat(customer.key, { ...how, messages })
    const text = await response.text()
    const end = words === undefined ? '"finish_reason":"stop"' : 'data: [DONE]'
    if (response.status !== 200 || !text.includes(end)) throw new Error(`${response.status} ${text}`)
  }
  return {
    made: async (ask, requests) => {
      let left = requests
      const client = async () => {
        while (left-- > 0) await askOnce(ask)
      }
      const before = await counter.take()
      await Promise.all(Array.from({ length: connections }, client))
      return madeEach(before, await counter.take(), requests)
    },
    stop: async () => {
      await gateway.stop()
      node.kill('SIGKILL')
      await node.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
