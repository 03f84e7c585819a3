import { connect } from 'node:net'
import { product } from '../../brand.ts'
import {
  type NodeRequest,
  type NodeResponse,
  type NodeTransport,
  TransportError,
  type TransportFailure,
} from './transport.ts'

export interface DirectOptions {
  /** Base URL of the node, with or without a trailing `/v1`. */
  readonly url: string
  /** Sent as bearer token; null for a node that asks for none. */
  readonly apiKey: string | null
  readonly connectTimeoutMs: number
}

const failureByCode: Readonly<Record<string, TransportFailure>> = {
  ECONNREFUSED: 'refused',
  ConnectionRefused: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ETIMEDOUT: 'timeout',
  EPROTO: 'tls',
}
const tlsCode = /CERT|SSL|TLS|SIGNATURE|SELF_SIGNED/

/** What a failed fetch or socket means; never carries the cause, whose message may name the address. */
function failureOf(error: unknown): TransportFailure {
  const { name, code } = error as { name?: unknown; code?: unknown }
  if (name === 'AbortError') return 'aborted'
  if (name === 'TimeoutError') return 'timeout'
  if (typeof code !== 'string') return 'closed'
  return failureByCode[code] ?? (tlsCode.test(code) ? 'tls' : 'closed')
}

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

/** Opens a TCP connection and closes it: can the node be reached at all? null: yes. */
function reach(url: URL, timeoutMs: number): Promise<TransportFailure | null> {
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  // WHATWG URLs keep the brackets of an IPv6 address, sockets take it without.
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const end = (failure: TransportFailure | null) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(failure)
    }
    const timer = setTimeout(end, timeoutMs, 'timeout')
    socket.once('connect', () => end(null))
    socket.on('error', (error) => end(failureOf(error)))
  })
}

/** Bun's options beyond the standard ones. `proxy: false` is what keeps it from reading `HTTP_PROXY` (seen in 1.4.5). */
const bunOptions: object = { timeout: false, proxy: false }

/**
 * Keep-alive HTTP to the node's URL. Redirects are returned as they are, never followed. A body that the node compresses
 * although it was asked not to is readable all the same (Bun decompresses; its `content-encoding` header stays).
 *
 * Bun's fetch has no timeout for connecting, and a bound on the headers would cut off a node that thinks long. So half
 * of `connectTimeoutMs` after a request without an answer one TCP connection is tried beside it, bounded by the other
 * half; only if that fails is the request given up. Concurrent requests share the trial.
 */
export function createDirectTransport(options: DirectOptions): NodeTransport {
  const base = nodeBaseUrl(options.url)
  if (base === null) throw new TypeError('node transport: not a base URL')
  const url = new URL(base)
  const halfMs = Math.ceil(options.connectTimeoutMs / 2)
  const fixed: Record<string, string> = { 'accept-encoding': 'identity', 'user-agent': product }
  if (options.apiKey !== null) fixed.authorization = `Bearer ${options.apiKey}`
  let trial: Promise<TransportFailure | null> | null = null
  let answers = 0
  let closed = false

  const tryToReach = () => {
    trial ??= reach(url, halfMs).finally(() => {
      trial = null
    })
    return trial
  }

  const fetchNode = async (path: string, init: NodeRequest): Promise<NodeResponse> => {
    if (closed) throw new TransportError('closed')
    if (init.signal.aborted) throw new TransportError('aborted')
    const abort = new AbortController()
    let unreachable = null as TransportFailure | null
    let answered = false
    init.signal.addEventListener('abort', () => abort.abort(), { once: true })
    const answersBefore = answers
    const timer = setTimeout(async () => {
      // Another request's answer in the meantime is proof enough.
      if (answers !== answersBefore) return
      unreachable = await tryToReach()
      if (unreachable !== null && !answered) abort.abort()
    }, halfMs)
    try {
      const response = await fetch(base + path, {
        method: init.method,
        headers: { ...init.headers, ...fixed },
        ...(init.body === undefined ? {} : { body: init.body }),
        redirect: 'manual',
        signal: abort.signal,
        ...bunOptions,
      })
      answered = true
      answers++
      return response
    } catch (error) {
      throw new TransportError(init.signal.aborted ? 'aborted' : (unreachable ?? failureOf(error)))
    } finally {
      clearTimeout(timer)
    }
  }
  return {
    fetch: fetchNode,
    close: () => {
      closed = true
    },
  }
}
