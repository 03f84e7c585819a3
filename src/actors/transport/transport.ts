/**
 * The one shape by which the gateway reaches a node (decisions §22). Chat, probes and jobs never know how a node is
 * connected; a faster HTTP client or a tunnel is another file with this shape.
 */
export interface NodeTransport {
  fetch(path: string, init: NodeRequest): Promise<NodeResponse>
  close(): void
}

export interface NodeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

/** The part of a `Response` that is used, so that a transport need not build a real one. */
export interface NodeResponse {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  /** null when the answer has no body. */
  readonly body: NodeBody | null
  text(): Promise<string>
}

export interface NodeBody {
  getReader(): NodeBodyReader
}

export interface NodeBodyReader {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>
  cancel(reason?: unknown): Promise<void>
}

/** Why a call never got an answer. `refused` and `closed` make the node stale at once. */
export type TransportFailure = 'refused' | 'closed' | 'dns' | 'tls' | 'timeout' | 'aborted'

export class TransportError extends Error {
  override readonly name = 'TransportError'
  constructor(readonly failure: TransportFailure) {
    // The cause is left out on purpose: Bun's fetch errors name the node's address.
    super(`node transport: ${failure}`)
  }
}
