import { product } from '../brand.ts'
import { within } from '../deadline.ts'
import type { CancelSignal } from './call-signal.ts'
import { type ConnectionPort, type Endpoint, Http1Connection } from './http1-connection.ts'
import { IdleConnections } from './idle-connections.ts'
import { type NodeRequest, type NodeResponse, type NodeTransport, TransportError } from './transport.ts'

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

/** How soon a request hears that its idle connection had been closed: a round trip, generously. */
const staleNoticeMs = 500
/** A node that sent bytes which answer no request has no connection kept for this long, ms. */
const unkeptMs = 600_000
/** Of requests that name none: polls, which carry nothing of anybody. */
const noIsolationKey = ''

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

const lineBreak = /[\r\n\0]/

/** Header values are ours or checked elsewhere; a line break in one would be another request. */
function headerLines(headers: Readonly<Record<string, string>>, reserved?: ReadonlySet<string>): string {
  let lines = ''
  for (const name in headers) {
    if (reserved?.has(name.toLowerCase()) === true) continue
    const value = headers[name] ?? ''
    if (lineBreak.test(name) || lineBreak.test(value)) throw new TypeError('header with a line break')
    lines += `${name}: ${value}\r\n`
  }
  return lines
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
  const url = new URL(base)
  const tls = url.protocol === 'https:'
  const endpoint: Endpoint = {
    // WHATWG URLs keep the brackets of an IPv6 address, sockets take it without.
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (tls ? 443 : 80) : Number(url.port),
    tls,
    ...(options.socketPath === undefined ? {} : { socketPath: options.socketPath }),
    connectTimeoutMs: options.connectTimeoutMs,
  }
  const pathPrefix = url.pathname === '/' ? '' : url.pathname
  const own: Readonly<Record<string, string>> = {
    host: url.host,
    'accept-encoding': 'identity',
    'user-agent': product,
    ...(options.apiKey === null ? {} : { authorization: `Bearer ${options.apiKey}` }),
  }
  const fixed = headerLines(own)
  const reserved = new Set(Object.keys(own))
  const all = new Set<Http1Connection>()
  const idle = new IdleConnections()
  let closed = false
  let unkeptUntilMs = 0

  const port: ConnectionPort = {
    released: (connection) => {
      if (closed || performance.now() < unkeptUntilMs || !idle.add(connection)) connection.destroy()
    },
    closed: (connection) => {
      all.delete(connection)
      idle.delete(connection)
    },
    desynchronised: () => {
      unkeptUntilMs = performance.now() + unkeptMs
      idle.destroyAll()
    },
  }
  // Nobody would take it up again where all requests are of this kind.
  const oncePort: ConnectionPort = { ...port, released: (connection) => connection.destroy() }
  const { resolve } = options
  const place = (hostname: string, signal: CancelSignal): Promise<string> =>
    new Promise((found, failed) => {
      signal.addEventListener('abort', () => failed(new TransportError('aborted')))
      const looking = resolve?.(hostname, tls) ?? Promise.resolve(hostname)
      withinConnectTime(looking, options.connectTimeoutMs).then(found, failed)
    })
  const connect = async ({ signal, once, isolationKey }: NodeRequest): Promise<Http1Connection> => {
    const connection = new Http1Connection(once === true ? oncePort : port, isolationKey ?? noIsolationKey)
    all.add(connection)
    try {
      if (resolve === undefined) await connection.connect(endpoint, signal)
      else {
        const { hostname: serverName } = endpoint
        await connection.connect({ ...endpoint, hostname: await place(serverName, signal), serverName }, signal)
      }
    } catch (error) {
      connection.destroy()
      throw error
    }
    return connection
  }

  const send = async (path: string, init: NodeRequest): Promise<NodeResponse> => {
    if (closed) throw new TransportError('closed')
    if (init.signal.aborted) throw new TransportError('aborted')
    const head = `${init.method} ${pathPrefix}${path} HTTP/1.1\r\n${fixed}${headerLines(init.headers ?? {}, reserved)}`
    const known = init.once === true ? null : idle.take(init.isolationKey ?? noIsolationKey)
    if (known !== null) {
      const sentMs = performance.now()
      try {
        return await known.send(head, init.body, init.signal)
      } catch (error) {
        // A kept connection that closes at once and without a byte was closed before the request came: a fresh one may
        // carry it. One that closes later had the request: it is not sent twice.
        if (!(error instanceof TransportError) || error.failure !== 'closed') throw error
        if (performance.now() - sentMs > staleNoticeMs) throw error
      }
    }
    const fresh = await connect(init)
    return fresh.send(head, init.body, init.signal)
  }

  return {
    fetch: send,
    close: () => {
      closed = true
      for (const connection of [...all]) connection.destroy()
    },
  }
}
