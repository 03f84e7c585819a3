import { connect, type Socket } from 'node:net'
import type { FakeNode } from '../../../src/fake-node/fake-node.ts'
import type { TestGateway } from '../gateways/gateway.ts'

/** Where the client is when it leaves (§5: the node hears of it within 50 ms in each). */
export const abortWindows = ['before headers', 'mid-stream', 'whole answer'] as const
export type AbortWindow = (typeof abortWindows)[number]
/** `fetch`: a program that gives up. `close`, `reset`: a connection that is simply gone (FIN, RST). */
const waysToLeave = ['fetch', 'close', 'reset'] as const
export type WayToLeave = (typeof waysToLeave)[number]

/** The ways in turn. */
export const wayOf = (at: number): WayToLeave => waysToLeave[at % waysToLeave.length] ?? 'fetch'

export const abortModel = 'abort-model'
const messages = [{ role: 'user', content: 'stay' }]
/** Nobody waits for an answer of the node in these trials: it would come after this. */
const neverMs = 60_000
const chatPath = '/v1/api/chat/completions'

interface LeavingClient {
  /** Resolves with the first bytes of the answer's body. */
  readonly firstBytes: Promise<void>
  leave(): void
}

function prepare(node: FakeNode, window: AbortWindow): void {
  node.clearFaults()
  if (window === 'mid-stream') node.setAnswer({ chunks: 1_000, firstTokenMs: 0, intervalMs: 5 })
  else if (window === 'whole answer') node.setAnswer({ chunks: 5, firstTokenMs: neverMs, intervalMs: 0 })
  else node.setFaults({ kind: 'slowHeaders', ms: neverMs })
}

function fetchClient(url: string, key: string, body: string): LeavingClient {
  const controller = new AbortController()
  const firstBytes = fetch(url + chatPath, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
    signal: controller.signal,
  }).then(async (response) => {
    await response.body?.getReader().read()
  })
  // Where the client leaves before the headers this rejects, as it should.
  firstBytes.catch(() => {})
  return { firstBytes, leave: () => controller.abort() }
}

function socketClient(url: string, key: string, body: string, way: 'close' | 'reset'): LeavingClient {
  const { hostname, port } = new URL(url)
  const socket: Socket = connect(Number(port), hostname)
  const head = [`POST ${chatPath} HTTP/1.1`, `host: ${hostname}:${port}`, `authorization: Bearer ${key}`]
  const type = ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]
  socket.write(`${[...head, ...type].join('\r\n')}\r\n\r\n${body}`)
  socket.on('error', () => {})
  const firstBytes = new Promise<void>((resolve) => {
    let text = ''
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      if (text.includes('data: ')) resolve()
    })
  })
  return { firstBytes, leave: () => (way === 'reset' ? socket.resetAndDestroy() : socket.destroy()) }
}

export interface Leaving {
  readonly url: string
  readonly key: string
  /** Of the chat request. */
  readonly body: object
  /** Whoever is asked on its behalf, each once. */
  readonly nodes: readonly FakeNode[]
  readonly way: WayToLeave
  /** It leaves once it has read something; else when all nodes have been asked. */
  readonly afterFirstBytes?: boolean
}

/** One client that leaves; resolves with the ms from its leaving to each node's hearing of it. */
export async function leaveOnce({ url, key, body, nodes, way, afterFirstBytes }: Leaving): Promise<readonly number[]> {
  const text = JSON.stringify(body)
  const arrived = Promise.all(nodes.map((node) => node.nextRequest()))
  const client = way === 'fetch' ? fetchClient(url, key, text) : socketClient(url, key, text, way)
  await arrived
  if (afterFirstBytes === true) await client.firstBytes
  const heard = Promise.all(nodes.map((node) => node.nextAbort()))
  const leftMs = performance.now()
  client.leave()
  return (await heard).map(({ endedAtMs }) => (endedAtMs ?? Number.NaN) - leftMs)
}

/** `count` clients one after the other, the ways to leave in turn. Delays in ms, sorted. */
export async function abortMany(
  gateway: TestGateway,
  key: string,
  node: FakeNode,
  window: AbortWindow,
  count: number,
): Promise<readonly number[]> {
  prepare(node, window)
  const delays: number[] = []
  for (let at = 0; at < count; at++) {
    const body = { model: abortModel, messages, ...(window === 'whole answer' ? {} : { stream: true }) }
    const afterFirstBytes = window === 'mid-stream'
    delays.push(...(await leaveOnce({ url: gateway.url, key, body, nodes: [node], way: wayOf(at), afterFirstBytes })))
  }
  return delays.toSorted((a, b) => a - b)
}

export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
