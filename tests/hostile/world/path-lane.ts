import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Place, speak } from './asker.ts'
import { startBytesNode } from './bytes-node.ts'
import type { HostileGateway } from './hostile-gateway.ts'
import type { Lane } from './lanes.ts'
import { changed, judged, type PathCase, pathCase } from './path-twists.ts'
import { newSecret } from './secrets.ts'
import type { Fault } from './verdict.ts'

/** Where somebody listens, and paths that routes answer there. */
interface Listener {
  readonly name: string
  readonly place: Place
  readonly paths: readonly string[]
  /** With them nothing is refused for who asks. */
  readonly credentials: readonly string[]
  /** In the answer to a path that is refused. */
  readonly refusal: RegExp
}

export type PathBatch = readonly PathCase[]

/** Clients that write paths which two programs may read differently, to all who listen. */
export class PathLane implements Lane<PathBatch> {
  readonly batches: fc.Arbitrary<PathBatch> = fc.array(pathCase, { minLength: 1, maxLength: 12, size: 'max' })
  readonly unserved: string[] = []
  readonly retried = 0
  readonly outOfStep = 0

  constructor(
    readonly name: string,
    private readonly listeners: readonly Listener[],
    readonly stop: () => void,
  ) {}

  kinds(batch: PathBatch): readonly string[] {
    return batch.map((one) => `path: ${judged(this.target(one).path)}`)
  }

  async play(batch: PathBatch): Promise<readonly Fault[]> {
    return (await Promise.all(batch.map((one) => this.ask(one)))).flat()
  }

  private target({ listener: at, path, changes, form }: PathCase) {
    const listener = this.listeners[at % this.listeners.length] as Listener
    const own = listener.paths[path % listener.paths.length] ?? '/'
    const changedPath = changed(own, changes)
    const target = form === 'absolute' ? `http://elsewhere.example${changedPath}` : changedPath
    return { listener, path: changedPath, target: form === 'with a query' ? `${target}?x=1` : target }
  }

  private async ask(one: PathCase): Promise<readonly Fault[]> {
    const { listener, path, target } = this.target(one)
    const lines = [
      `${one.method} ${target} HTTP/1.1`,
      'Host: localhost',
      ...(one.header?.includes('onnection:') === true ? [] : ['Connection: close']),
      ...listener.credentials,
      ...(one.header === null ? [] : [one.header]),
      'Content-Length: 2',
    ]
    const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n{}`, 'latin1')
    const heard = await speak(listener.place, { writes: [bytes], leaveAfterMs: lingerMs })
    const detail = `${listener.name}: ${JSON.stringify(`${one.method} ${target}`)} got ${JSON.stringify(heard.text.slice(0, 300))}`
    const status = Number(/^HTTP\/1\.1 ([0-9]{3})/.exec(heard.text)?.[1] ?? Number.NaN)
    if (status === 500) return [{ kind: 'status 500', detail }]
    switch (judged(path)) {
      case 'refused':
        // The answer to HEAD has no body.
        if (status === 400 && (one.method === 'HEAD' || listener.refusal.test(heard.text))) return []
        return [{ kind: 'ambiguous path', detail }]
      case 'ended':
        return status >= 400 && !/\r\nx-request-id:/i.test(heard.text.split('\r\n\r\n')[0] ?? '')
          ? []
          : [{ kind: 'ambiguous path', detail }]
      case 'anything':
        return []
    }
  }

  async rest(): Promise<void> {}
}

/** Longer than any of these answers takes; a stream that a route begins is then left, ms. */
const lingerMs = 10_000

function placeOf(url: string): Place {
  const { hostname, port } = new URL(url)
  return { hostname, port: Number(port) }
}

/** The doors that the processes of one gateway have for each other, if it has several. */
function peerDoors(folder: string): readonly Place[] {
  const sockets = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\d+-\d+\.sock$/.test(name),
  )
  return sockets.map((name) => ({ hostname: '127.0.0.1', port: 0, unix: join(folder, name) }))
}

const code = /The path has.*"code":"invalid_request"/

/** At the gateway, at Ollama's interface, at an agent, and at the door for other gateways or processes. */
export async function openPathLane(gateway: HostileGateway, at: number): Promise<PathLane> {
  const customer = await gateway.customer()
  const node = startBytesNode(`paths-${at}`)
  const whose = { owner: customer.customerId, visibility: 'private' } as const
  const { agentUrl } = await gateway.join({ url: node.url, apiKey: newSecret(), ...whose }, 'agent')
  const admin = `X-SVC-Admin-Token: ${gateway.tokens.admin}`
  const peers = { paths: ['/v1/peer/own/loads', '/v1/peer/own/metrics', '/v1/peer/nodes/node_x'], refusal: code }
  const listeners: Listener[] = [
    {
      name: 'gateway',
      place: placeOf(gateway.url),
      paths: [
        '/v1/admin/customers',
        '/v1/admin/nodes',
        '/v1/models',
        '/v1/api/models/a',
        '/healthz',
        '/metrics',
        '/v1/chat/completions',
      ],
      credentials: [admin, `Authorization: Bearer ${customer.key}`],
      refusal: code,
    },
    {
      name: 'Ollama',
      place: placeOf(gateway.ollamaUrl ?? ''),
      paths: ['/api/tags', '/api/version', '/api/chat', '/v1/models', '/v1/chat/completions'],
      credentials: [`Authorization: Bearer ${customer.key}`],
      refusal: /The path has/,
    },
    {
      name: 'agent',
      place: placeOf(agentUrl ?? ''),
      paths: ['/v1/models', '/healthz', '/svc/v1/status', '/v1/chat/completions', '/svc/v1/commands/a'],
      credentials: [],
      refusal: code,
    },
    ...gateway.urls.map((url) => ({ name: 'peer', place: placeOf(url), credentials: [], ...peers })),
    ...peerDoors(gateway.folder).map((place) => ({ name: 'peer door', place, credentials: [], ...peers })),
  ]
  return new PathLane(`paths-${at}`, listeners, () => node.stop())
}
