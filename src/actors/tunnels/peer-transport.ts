import { headers } from '../../brand.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { type AnswerHead, type OpenHead, readAnswerHead } from '../../protocol/tunnel/tunnel-frames.ts'
import { sha256Hex } from '../../secrets.ts'
import { createDirectTransport } from '../../transport/http1/direct.ts'
import {
  type NodeRequest,
  type NodeResponse,
  type NodeTransport,
  TransportError,
  type TransportFailure,
  wholeBody,
} from '../../transport/transport.ts'
import { peerProof } from './peer-proof.ts'
import type { TunnelOwner } from './tunnel-owners.ts'

/** The path is `<peer_url>`, this prefix and the node's id. */
export const peerPath = '/v1/peer/nodes/'
/** Stands before the path of a Unix socket instead of `http:`: another process on this computer. */
export const socketScheme = 'unix:'
/** How many other gateways keep their connections. */
const peersMax = 64

export interface PeersOptions {
  /** SVC_CLUSTER_SECRET, or null for a single gateway. */
  readonly secret: string | null
  readonly connectTimeoutMs: number
  /** Unix ms. */
  readonly now?: () => number
}

/** The other gateways of the pool, as ways to the nodes that dialled in there. */
export interface Peers {
  /** null if that gateway is gone or no longer has the tunnel. Then the request did not reach the node. */
  fetch(owner: TunnelOwner, nodeId: string, path: string, init: NodeRequest): Promise<NodeResponse | null>
  close(): void
}

const failures: ReadonlySet<string> = new Set<TransportFailure>(['closed', 'timeout', 'malformed'])

export function encodeHead(head: OpenHead | AnswerHead): string {
  return Buffer.from(JSON.stringify(head)).toString('base64url')
}

export function createPeers({ secret, connectTimeoutMs, now = Date.now }: PeersOptions): Peers {
  const byUrl = new Map<string, NodeTransport>()
  const transportTo = (url: string): NodeTransport => {
    const known = byUrl.get(url)
    if (known !== undefined) return known
    const [oldest] = byUrl
    if (byUrl.size >= peersMax && oldest !== undefined) {
      oldest[1].close()
      byUrl.delete(oldest[0])
    }
    const to = url.startsWith(socketScheme)
      ? { url: 'http://process', socketPath: url.slice(socketScheme.length) }
      : { url }
    const made = createDirectTransport({ ...to, apiKey: null, connectTimeoutMs })
    byUrl.set(url, made)
    return made
  }
  return {
    fetch: async (owner, nodeId, path, init) => {
      if (secret === null) throw new TransportError('closed')
      const { method, signal, once = false, isolationKey = '' } = init
      const body = wholeBody(init.body ?? '')
      const head = encodeHead({ method, path, headers: init.headers ?? {} })
      const to = { replicaId: owner.replicaId, method: 'POST', path: peerPath + nodeId }
      const proof = peerProof(secret, { ...to, head, bodyHash: sha256Hex(body) }, now())
      try {
        const response = await transportTo(owner.peerUrl).fetch(to.path, {
          method: 'POST',
          headers: { [headers.peerTo]: owner.replicaId, [headers.peerHead]: head, [headers.peerProof]: proof },
          body,
          signal,
          once,
          isolationKey,
        })
        return answerOf(response)
      } catch (error) {
        // The gateway refused, which says nothing about the node.
        if (error instanceof TransportError && error.failure === 'refused') return null
        throw error
      }
    },
    close: () => {
      for (const transport of byUrl.values()) transport.close()
      byUrl.clear()
    },
  }
}

/** Takes the node's answer out of the peer's answer: the head is in a header, and the body is the body. */
function answerOf(response: NodeResponse): NodeResponse | null {
  const failure = response.headers.get(headers.peerFailure)
  const head = response.status === 200 ? decodeAnswer(response.headers.get(headers.peerHead)) : null
  if (head !== null) return new PeerAnswer(response, head)
  response.discard()
  if (response.status === 404) return null
  throw new TransportError(failure !== null && failures.has(failure) ? (failure as TransportFailure) : 'closed')
}

function decodeAnswer(text: string | null): AnswerHead | null {
  if (text === null) return null
  return readAnswerHead(foreignJson(Buffer.from(text, 'base64url').toString('utf8')))
}

class PeerAnswer implements NodeResponse {
  readonly status: number
  readonly headers: NodeResponse['headers']

  constructor(
    private readonly response: NodeResponse,
    { status, headers }: AnswerHead,
  ) {
    this.status = status
    const values = new Map(Object.entries(headers))
    this.headers = { get: (name) => values.get(name.toLowerCase()) ?? null }
  }

  get flow(): NodeResponse['flow'] {
    return this.response.flow
  }

  read(sink: Parameters<NodeResponse['read']>[0]): void {
    this.response.read(sink)
  }

  text(bytesMax: number): Promise<string> {
    return this.response.text(bytesMax)
  }

  discard(): void {
    this.response.discard()
  }
}
