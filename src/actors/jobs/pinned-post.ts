import type { Socket } from 'bun'
import { descriptors } from '../../host/descriptors.ts'
import { type HeadFields, MalformedResponse } from '../../transport/http1/response-head.ts'
import { ResponseParser, type ResponseSink } from '../../transport/http1/response-parser.ts'

export interface PinnedPost {
  /** An address that was already checked. The connection goes to it even if the name now has another address. */
  readonly address: string
  readonly port: number
  /** The host name that the certificate must have and that `Host` names. */
  readonly hostname: string
  /** The path with its query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Time limit for the whole request, ms. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Replaces the system's certificate authorities. */
  readonly ca?: string
}

export interface PostAnswer {
  readonly status: number
  readonly headers: HeadFields
}

export type PostFailure = 'timeout' | 'connect_error' | 'tls_error' | 'stopped'

export class PostError extends Error {
  override readonly name = 'PostError'
  constructor(readonly failure: PostFailure) {
    // The message omits the socket's error, because that contains the address.
    super(`post: ${failure}`)
  }
}

/** The body of an answer is not kept. Beyond this size it is not read either, bytes. */
export const answerBytesMax = 64 * 1024
const tlsCode = /CERT|SSL|TLS|SIGNATURE|ISSUER|EPROTO|VERIFY/

/**
 * One POST over TLS to an address that was checked, straight on Bun's sockets: its fetch would go through a proxy named
 * in the environment. Redirects are answers like any other. Rejects with `PostError` only.
 */
export function postPinned(post: PinnedPost): Promise<PostAnswer> {
  return new Promise((resolve, reject) => new Exchange(post, resolve, reject).begin())
}

class Exchange implements ResponseSink {
  private socket: Socket<undefined> | null = null
  private readonly parser = new ResponseParser(this)
  private unsent: Uint8Array
  private answer: PostAnswer | null = null
  private bodyBytes = 0
  private over = false
  private readonly timer: ReturnType<typeof setTimeout>
  private readonly stopped = () => this.fail('stopped')

  constructor(
    private readonly post: PinnedPost,
    private readonly resolve: (answer: PostAnswer) => void,
    private readonly reject: (error: PostError) => void,
  ) {
    this.unsent = Buffer.from(requestText(post))
    // A status that arrived in time counts, however slow its body is.
    this.timer = setTimeout(() => (this.answer === null ? this.fail('timeout') : this.conclude()), post.timeoutMs)
    post.signal.addEventListener('abort', this.stopped)
  }

  begin(): void {
    const { address, port, hostname, ca, signal } = this.post
    if (signal.aborted) return this.fail('stopped')
    descriptors.lend()
    Bun.connect({
      hostname: address,
      port,
      tls: { serverName: hostname, rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) },
      socket: {
        open: (socket) => {
          this.socket = socket
          if (this.over) socket.terminate()
        },
        handshake: (_socket, success, error) => {
          if (success && error === null) this.write()
          else this.fail('tls_error')
        },
        drain: () => this.write(),
        data: (_socket, bytes) => this.data(bytes),
        end: () => this.closed(),
        close: () => this.closed(),
        error: (_socket, error) => this.fail(failureOf(error)),
      },
    }).catch((error: unknown) => this.fail(failureOf(error)))
  }

  private write(): void {
    if (this.over || this.socket === null || this.unsent.length === 0) return
    const sent = this.socket.write(this.unsent)
    if (sent < 0) return this.fail('connect_error')
    this.unsent = this.unsent.subarray(sent)
  }

  private data(bytes: Buffer): void {
    if (this.over) return
    try {
      this.parser.push(bytes)
    } catch (error) {
      if (!(error instanceof MalformedResponse)) throw error
      this.closed()
    }
  }

  head(status: number, headers: HeadFields): void {
    this.answer = { status, headers }
  }

  part(_input: Buffer, from: number, to: number): void {
    this.bodyBytes += to - from
    if (this.bodyBytes > answerBytesMax) this.conclude()
  }

  end(): void {
    this.conclude()
  }

  /** The status is known, so the end of the body does not matter. */
  private conclude(): void {
    if (this.answer === null) return this.fail('connect_error')
    if (!this.finish()) return
    this.resolve(this.answer)
  }

  private closed(): void {
    if (!this.over) this.conclude()
  }

  private fail(failure: PostFailure): void {
    if (this.finish()) this.reject(new PostError(failure))
  }

  private finish(): boolean {
    if (this.over) return false
    this.over = true
    clearTimeout(this.timer)
    this.post.signal.removeEventListener('abort', this.stopped)
    this.socket?.terminate()
    return true
  }
}

function requestText({ hostname, port, path, headers, body }: PinnedPost): string {
  const host = port === 443 ? hostname : `${hostname}:${port}`
  const all = { host, ...headers, 'content-length': String(Buffer.byteLength(body)), connection: 'close' }
  const lines = Object.entries(all).map(([name, value]) => {
    if (/[\r\n\0]/.test(name + value)) throw new TypeError('header with a line break')
    return `${name}: ${value}\r\n`
  })
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

function failureOf(error: unknown): PostFailure {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && tlsCode.test(code) ? 'tls_error' : 'connect_error'
}
