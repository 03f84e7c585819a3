import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import { type TestCustomer, type TestGateway, waitFor } from '../gateways/gateway.ts'
import { fresh, type ProcessGateway, startProcesses } from '../gateways/processes.ts'
import { enrollmentToken, startAgent, type TestAgent } from '../nodes/agents.ts'
import { nodeAt, startFakeNodes } from '../nodes/fake-nodes.ts'

/** Several processes, a public node with a price, an agent that dialled in, and one who pays and owns the agent's node. */
export interface ProcessPool extends ProcessGateway {
  readonly payer: TestCustomer
  readonly node: FakeNode
  readonly agent: TestAgent
  stop(): Promise<void>
}

const open = { min_privacy_class: 'public' as const }
const messages = [{ role: 'user', content: 'hello there' }]
export const creditWei = 10n ** 12n
export const models = { paid: 'paid', slow: 'slow', dialled: 'dialled' } as const
const slowChunks = 40

export async function startProcessPool(env: Readonly<Record<string, string>> = {}): Promise<ProcessPool> {
  const several = await startProcesses({ env: { SVC_SHUTDOWN_GRACE_MS: '20000', ...env } })
  const { gateway } = several
  const owner = await gateway.customer({ policy: open, keyPolicy: open })
  const payer = await gateway.customer({ policy: open, keyPolicy: open })
  const nodes = startFakeNodes(3, (at) => ({ models: [Object.values(models)[at] ?? ''] }))
  const [node, slow, dialled] = [nodeAt(nodes, 0), nodeAt(nodes, 1), nodeAt(nodes, 2)]
  node.setAnswer({ chunks: 6, firstTokenMs: 5, intervalMs: 5 })
  slow.setAnswer({ chunks: slowChunks, firstTokenMs: 5, intervalMs: 40 })
  dialled.setAnswer({ chunks: 6, firstTokenMs: 5, intervalMs: 5 })
  await gateway.node(node.url, { customerId: owner.customerId, visibility: 'public', privacyClass: 'public' })
  await gateway.node(slow.url, { customerId: payer.customerId })
  await gateway.admin('PUT', '/v1/admin/models', { id: models.paid, completion_token_price_wei: '1000' })
  await gateway.admin('POST', `/v1/admin/customers/${payer.customerId}/credits`, { amount_wei: creditWei.toString() })
  const { enrollment_token: token } = await enrollmentToken(gateway, payer.customerId)
  const agent = await startAgent({ gatewayUrl: gateway.url, token, runtimes: [dialled.url] })
  const pool: ProcessPool = {
    ...several,
    payer,
    node,
    agent,
    stop: async () => {
      await agent.remove()
      await gateway.stop()
      for (const each of nodes) each.stop()
    },
  }
  await untilAllAnswer(pool)
  return pool
}

/** Every process serves every model; each connection goes to any of them. */
export async function untilAllAnswer(pool: ProcessPool): Promise<void> {
  const asks = [models.paid, models.dialled].flatMap((model) => Array.from({ length: 12 }, () => model))
  await waitFor('every process to serve every model', async () => {
    const all = await Promise.all(asks.map((model) => askOnce(pool, { model, stream: false })))
    return all.every(({ whole }) => whole)
  })
}

export interface Answer {
  readonly model: string
  readonly status: number
  readonly whole: boolean
  readonly receipt: string | null
  /** What went wrong, for whoever reads a failed test. */
  readonly text: string
}

export async function askOnce(
  { gateway, payer }: Pick<ProcessPool, 'gateway' | 'payer'>,
  { model, stream, kept = false }: { readonly model: string; readonly stream: boolean; readonly kept?: boolean },
): Promise<Answer> {
  try {
    const init = kept ? {} : fresh
    const response = await gateway.chat(payer.key, { model, messages, max_tokens: 20, stream }, init)
    const text = await response.text()
    const whole = response.status === 200 && (!stream || text.endsWith('data: [DONE]\n\n'))
    const receipt = /"receipt_hash":"(0x[0-9a-f]{64})"/.exec(text)?.[1] ?? null
    return { model, status: response.status, whole, receipt, text: whole ? '' : text.slice(-300) }
  } catch (error) {
    return {
      model,
      status: 0,
      whole: false,
      receipt: null,
      text: `${String((error as { code?: unknown }).code ?? error)} ${kept ? 'kept' : 'fresh'}`,
    }
  }
}

export interface Load {
  readonly answers: readonly Answer[]
  stop(): Promise<readonly Answer[]>
}

const clients = 8

/** Whole answers and streams, by the node with a price and by the tunnel, half of them on connections that are kept. */
export function processLoad(pool: ProcessPool): Load {
  const answers: Answer[] = []
  let running = true
  const client = async (n: number) => {
    for (let i = 0; running; i++) {
      const model = (n + i) % 4 === 0 ? models.dialled : models.paid
      const answer = await askOnce(pool, { model, stream: i % 2 === 0, kept: n % 2 === 0 })
      answers.push(answer)
      if (!answer.whole) await Bun.sleep(20)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, (_, n) => client(n)))
  return {
    answers,
    stop: async () => {
      running = false
      await all
      return answers
    },
  }
}

/** One stream of a second and a half on a socket of its own, so that its process can be told. */
export interface LongStream {
  readonly socket: Socket
  /** Resolves with all that came, whether whole or cut. */
  readonly ended: Promise<string>
  /** The first content is there. */
  readonly begun: Promise<void>
}

export function longStream({ gateway, payer }: Pick<ProcessPool, 'gateway' | 'payer'>): LongStream {
  const { hostname, port } = new URL(gateway.url)
  const body = JSON.stringify({ model: models.slow, messages, stream: true })
  const socket = connect(Number(port), hostname)
  socket.write(
    `POST /v1/api/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${payer.key}\r\n` +
      `content-type: application/json\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  let text = ''
  const begun = Promise.withResolvers<void>()
  const ended = new Promise<string>((done) => {
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      if (text.includes('"content":"')) begun.resolve()
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      begun.resolve()
      done(text)
    })
  })
  return { socket, ended, begun: begun.promise }
}

export const isWhole = (text: string): boolean => text.includes('data: [DONE]')

/** Which process holds the other end of a socket, as the kernel knows it. */
export function processOf(pids: readonly number[], socket: Socket, gateway: TestGateway): number | null {
  const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, '0')
  const [local, remote] = [hex(Number(new URL(gateway.url).port)), hex(socket.localPort ?? 0)]
  const row = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((text) => text.trim().split(/\s+/))
    .find((columns) => columns[1]?.endsWith(`:${local}`) === true && columns[2]?.endsWith(`:${remote}`) === true)
  const wanted = `socket:[${row?.[9]}]`
  const holds = (pid: number) =>
    readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`) === wanted
      } catch {
        return false
      }
    })
  return pids.find(holds) ?? null
}
