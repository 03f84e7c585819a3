import type { Socket } from 'bun'
import { type HttpRequest, type ParseState, parseRequest } from './http-parser.ts'

/**
 * One answer under way. The server speaks HTTP over a bare socket because two things must be exact: a connection that is
 * reset (RST) or ended (FIN) in the middle of a body, and the moment at which a client left.
 */
export interface Exchange {
  readonly request: HttpRequest
  /** Same number for requests that came over one kept-alive connection. */
  readonly connectionId: number
  /** True once the client left or the exchange was answered, reset or cut. */
  readonly closed: boolean
  readonly headersSent: boolean
  /**
   * Runs once if the connection ends before the answer is complete: the client left, or this node closed its port.
   * Returns the function that takes the listener away again.
   */
  onAbort(listener: (by: 'client' | 'node') => void): () => void
  respond(status: number, headers: Readonly<Record<string, string>>, body: string | Uint8Array): void
  /** Status and headers of a chunked answer. */
  head(status: number, headers: Readonly<Record<string, string>>): void
  /** Resolves when the kernel has taken the bytes: a client that does not read holds the writer. */
  write(bytes: string | Uint8Array): Promise<void>
  end(): void
  /** Cuts the connection: `reset` sends RST, `fin` closes it cleanly although the body is not complete. */
  cut(how: 'reset' | 'fin'): void
}

export interface HttpListener {
  readonly port: number
  readonly connections: number
  /**
   * No further connections. Open ones are reset; with `finishOpen` those that are answering end with that answer, and
   * `spare` does so in any case.
   */
  close(options: { readonly finishOpen: boolean; readonly spare?: number }): void
}

const reasons: Readonly<Record<number, string>> = {
  200: 'OK',
  400: 'Bad Request',
  404: 'Not Found',
  429: 'Too Many Requests',
}
let connectionsSoFar = 0

class Connection {
  readonly id = ++connectionsSoFar
  readonly #parse: ParseState = { pending: Buffer.alloc(0) }
  #out: Uint8Array[] = []
  #drained: (() => void)[] = []
  #current: OpenExchange | null = null
  #endedBy: 'client' | 'node' = 'client'
  /** The connection ends with the answer under way. */
  last = false

  constructor(
    readonly socket: Socket<Connection>,
    readonly handle: (exchange: Exchange) => void,
  ) {}

  receive(bytes: Uint8Array): void {
    this.#parse.pending =
      this.#parse.pending.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#parse.pending, bytes])
    this.next()
  }

  next(): void {
    if (this.#current !== null) return
    const request = parseRequest(this.#parse)
    if (request === 'incomplete') return
    if (request === 'malformed') {
      this.socket.terminate()
      return
    }
    this.#current = new OpenExchange(this, request)
    this.handle(this.#current)
  }

  send(bytes: Uint8Array): Promise<void> {
    if (this.#out.length === 0) {
      const taken = Math.max(0, this.socket.write(bytes))
      if (taken === bytes.length) return Promise.resolve()
      this.#out.push(bytes.subarray(taken))
    } else {
      this.#out.push(bytes)
    }
    return new Promise((resolve) => this.#drained.push(resolve))
  }

  drain(): void {
    for (let first = this.#out[0]; first !== undefined; first = this.#out[0]) {
      const taken = Math.max(0, this.socket.write(first))
      if (taken < first.length) {
        this.#out[0] = first.subarray(taken)
        return
      }
      this.#out.shift()
    }
    this.#wake()
    if (this.last && this.#current === null) this.socket.end()
  }

  done(): void {
    this.#current = null
    if (!this.last) this.next()
    else if (this.#out.length === 0) this.socket.end()
  }

  terminate(): void {
    this.#endedBy = 'node'
    this.socket.terminate()
  }

  closed(): void {
    const current = this.#current
    this.#current = null
    this.#out = []
    this.#wake()
    current?.abort(this.#endedBy)
  }

  #wake(): void {
    const waiting = this.#drained
    this.#drained = []
    for (const resolve of waiting) resolve()
  }

  get busy(): boolean {
    return this.#current !== null
  }
}

class OpenExchange implements Exchange {
  closed = false
  headersSent = false
  readonly #abortListeners = new Set<(by: 'client' | 'node') => void>()

  constructor(
    readonly connection: Connection,
    readonly request: HttpRequest,
  ) {}

  get connectionId(): number {
    return this.connection.id
  }

  onAbort(listener: (by: 'client' | 'node') => void): () => void {
    this.#abortListeners.add(listener)
    return () => void this.#abortListeners.delete(listener)
  }

  respond(status: number, headers: Readonly<Record<string, string>>, body: string | Uint8Array): void {
    if (this.closed) return
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    this.headersSent = true
    void this.connection.send(
      Buffer.concat([this.#head(status, { ...headers, 'content-length': String(bytes.length) }), bytes]),
    )
    this.#finish()
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.closed) return
    this.headersSent = true
    void this.connection.send(this.#head(status, { ...headers, 'transfer-encoding': 'chunked' }))
  }

  write(data: string | Uint8Array): Promise<void> {
    if (this.closed || data.length === 0) return Promise.resolve()
    const bytes = typeof data === 'string' ? Buffer.from(data) : data
    return this.connection.send(
      Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]),
    )
  }

  end(): void {
    if (this.closed) return
    void this.connection.send(Buffer.from('0\r\n\r\n'))
    this.#finish()
  }

  cut(how: 'reset' | 'fin'): void {
    if (this.closed) return
    this.closed = true
    if (how === 'reset') this.connection.socket.terminate()
    else this.connection.socket.end()
  }

  abort(by: 'client' | 'node'): void {
    if (this.closed) return
    this.closed = true
    for (const listener of [...this.#abortListeners]) listener(by)
  }

  #finish(): void {
    this.closed = true
    this.connection.done()
  }

  #head(status: number, headers: Readonly<Record<string, string>>): Buffer {
    if (headers.connection === 'close' || this.request.headers.connection === 'close') this.connection.last = true
    const lines = Object.entries({
      date: new Date().toUTCString(),
      ...headers,
      ...(this.connection.last ? { connection: 'close' } : {}),
    })
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    return Buffer.from(`HTTP/1.1 ${status} ${reasons[status] ?? 'Answer'}\r\n${head}\r\n`)
  }
}

export function listenHttp(
  at: { readonly hostname: string; readonly port: number },
  handle: (exchange: Exchange) => void,
): HttpListener {
  const open = new Set<Connection>()
  const server = Bun.listen<Connection>({
    hostname: at.hostname,
    port: at.port,
    socket: {
      open(socket) {
        socket.setNoDelay(true)
        socket.data = new Connection(socket, handle)
        open.add(socket.data)
      },
      data(socket, bytes) {
        socket.data.receive(bytes)
      },
      drain(socket) {
        socket.data.drain()
      },
      close(socket) {
        open.delete(socket.data)
        socket.data.closed()
      },
      error(socket) {
        socket.terminate()
      },
    },
  })
  return {
    port: server.port,
    get connections() {
      return open.size
    },
    close({ finishOpen, spare }) {
      server.stop(false)
      for (const connection of open) {
        if (connection.id === spare || (finishOpen && connection.busy)) connection.last = true
        else connection.terminate()
      }
    },
  }
}
