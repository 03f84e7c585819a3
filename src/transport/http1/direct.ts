import { Confidences, noConfidences } from '../../confidences.ts'
import { within } from '../../deadline.ts'
import { Roster } from '../../roster.ts'
import type { CancelSignal } from '../call-signal.ts'
import {
  type AnswerReceiver,
  type NodeRequest,
  type NodeResponse,
  type NodeTransport,
  TransportError,
} from '../transport.ts'
import { Call, type CallPort } from './call.ts'
import { type ConnectionPort, type Endpoint, Http1Connection } from './connection.ts'
import { IdleConnections } from './idle-connections.ts'
import { RequestHeads } from './request-head.ts'
import { HeadReader } from './response-head.ts'

export interface DirectOptions {
  /** Base URL of the node, with or without a trailing `/v1`. */
  readonly url: string
  /** Sent as bearer token; null for a node that asks for none. */
  readonly apiKey: string | null
  readonly connectTimeoutMs: number
  /** The Unix socket where the URL's host listens. */
  readonly socketPath?: string
  /** The address to connect to, asked for each new connection; default: the system's. Rejects with `TransportError`. */
  readonly resolve?: (hostname: string, tls: boolean) => Promise<string>
}

/** A node that sent bytes which answer no request has no connection kept for this long, ms. */
const unkeptMs = 600_000
/**
 * `http://host:1/v1/` → `http://host:1`: paths are appended to it, so that `/v1/chat/completions` and `/health` both
 * work. null: not an http(s) URL, or one with credentials, a query or a fragment.
 */
export function nodeBaseUrl(text: string): string | null {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return null
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return null
  return url.origin + url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '').replace(/\/+$/, '')
}

/** A name server that is silent counts as a node that cannot be found. */
function withinConnectTime<T>(work: Promise<T>, connectTimeoutMs: number): Promise<T> {
  return within(connectTimeoutMs, work).catch((error: unknown) => {
    throw error instanceof TransportError ? error : new TransportError('dns')
  })
}

/** Keep-alive HTTP/1.1 to the node's URL. Redirects are answers like any other, never followed; no proxy is used. */
export function createDirectTransport(options: DirectOptions): NodeTransport {
  const base = nodeBaseUrl(options.url)
  if (base === null) throw new TypeError('node transport: not a base URL')
  return new DirectTransport(new URL(base), options)
}

class DirectTransport implements NodeTransport, ConnectionPort, CallPort {
  readonly confided: Confidences
  private readonly endpoint: Endpoint
  private readonly requests: RequestHeads
  readonly heads = new HeadReader()
  private readonly all = new Roster<'transportPlace', Http1Connection>('transportPlace')
  private readonly idle = new IdleConnections()
  private closedByUs = false
  private unkeptUntilMs = 0
  /** Of connections for one request: they would never be taken up again where all requests are of this kind. */
  private readonly oncePort: ConnectionPort = {
    heads: this.heads,
    released: (connection) => connection.destroy(),
    closed: (connection) => this.closed(connection),
    desynchronised: () => this.desynchronised(),
  }

  constructor(
    url: URL,
    private readonly options: DirectOptions,
  ) {
    const tls = url.protocol === 'https:'
    this.endpoint = {
      // WHATWG URLs keep the brackets of an IPv6 address, sockets take it without.
      hostname: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? (tls ? 443 : 80) : Number(url.port),
      tls,
      ...(options.socketPath === undefined ? {} : { socketPath: options.socketPath }),
      connectTimeoutMs: options.connectTimeoutMs,
    }
    this.requests = new RequestHeads(url, options.apiKey)
    this.confided = options.apiKey === null ? noConfidences : new Confidences([options.apiKey])
  }

  fetch(path: string, init: NodeRequest): Promise<NodeResponse> {
    return new Promise((answered, refused) => this.ask(path, init, { answered, refused }))
  }

  ask(path: string, init: NodeRequest, receiver: AnswerReceiver): void {
    if (this.closedByUs) return receiver.refused(new TransportError('closed'))
    if (init.signal.aborted) return receiver.refused(new TransportError('aborted'))
    const call = new Call(this, this.requests.of(path, init), init, receiver)
    const kept = init.once === true ? null : this.idle.take(call.isolationKey)
    if (kept === null) this.again(call)
    else kept.carry(call)
  }

  close(): void {
    this.closedByUs = true
    for (const connection of [...this.all]) connection.destroy()
  }

  /** Carries it over a fresh connection. */
  again(call: Call): void {
    const connection = new Http1Connection(call.once ? this.oncePort : this, call.isolationKey)
    this.all.add(connection)
    this.connected(connection, call).then(
      () => connection.carry(call),
      (error: unknown) => {
        connection.destroy()
        call.refused(error)
      },
    )
  }

  private async connected(connection: Http1Connection, { signal }: Call): Promise<void> {
    const { endpoint, options } = this
    if (options.resolve === undefined) return connection.connect(endpoint, signal)
    const { hostname: serverName } = endpoint
    const hostname = await this.addressOf(options.resolve(serverName, endpoint.tls), signal)
    await connection.connect({ ...endpoint, hostname, serverName }, signal)
  }

  private addressOf(looking: Promise<string>, signal: CancelSignal): Promise<string> {
    return new Promise((found, failed) => {
      signal.addEventListener('abort', () => failed(new TransportError('aborted')))
      withinConnectTime(looking, this.options.connectTimeoutMs).then(found, failed)
    })
  }

  released(connection: Http1Connection): void {
    if (this.closedByUs || performance.now() < this.unkeptUntilMs || !this.idle.add(connection)) connection.destroy()
  }

  closed(connection: Http1Connection): void {
    this.all.delete(connection)
    this.idle.delete(connection)
  }

  desynchronised(): void {
    this.unkeptUntilMs = performance.now() + unkeptMs
    this.idle.destroyAll()
  }
}
