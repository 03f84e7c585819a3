import { encapsulatedKeyHeader, responseNonceHeader } from '../../../src/protocol/sealed/ehbp.ts'
import type { SealedNode } from '../../../src/protocol/wire/inference/sealed.ts'

export interface RelayedRequest {
  readonly url: string
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer>
}

export interface RelayedAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer>
}

/** What a gateway does that wants to read or to change what it relays. */
export interface Twist {
  readonly nodes?: (nodes: readonly SealedNode[]) => readonly SealedNode[]
  readonly request?: (request: RelayedRequest) => RelayedRequest
  /** `repeat`: sends the same request once more. */
  readonly answer?: (
    answer: RelayedAnswer,
    repeat: () => Promise<RelayedAnswer>,
  ) => RelayedAnswer | Promise<RelayedAnswer>
}

/** Stands before a gateway and does what a hostile one could do. */
export interface HostileRelay {
  readonly url: string
  twist: Twist
  stop(): Promise<void>
}

const passed = [encapsulatedKeyHeader, 'authorization', 'content-type', 'x-svc-model', 'x-svc-max-tokens']
const told = [responseNonceHeader, 'content-type']
const only = (names: readonly string[], from: Headers) =>
  new Headers(names.flatMap((name) => (from.has(name) ? [[name, from.get(name) ?? ''] as [string, string]] : [])))

async function send({ url, headers, body }: RelayedRequest): Promise<RelayedAnswer> {
  const response = await fetch(url, { method: 'POST', headers, body })
  return {
    status: response.status,
    headers: only(told, response.headers),
    body: new Uint8Array(await response.arrayBuffer()),
  }
}

export function startHostileRelay(gateway: string): HostileRelay {
  const relay = { url: '', twist: {} as Twist, stop: () => server.stop(true) }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    maxRequestBodySize: 64 * 1024 * 1024,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const { twist } = relay
      const headers = only(passed, request.headers)
      const url = gateway + pathname + search
      if (request.method === 'GET') {
        const list = (await (await fetch(url, { headers })).json()) as { readonly data: readonly SealedNode[] }
        return Response.json({ ...list, data: twist.nodes?.(list.data) ?? list.data })
      }
      const given = { url, headers, body: new Uint8Array(await request.arrayBuffer()) }
      const changed = twist.request?.(given) ?? given
      const answer = await send(changed)
      const last = (await twist.answer?.(answer, () => send(changed))) ?? answer
      return new Response(last.body, { status: last.status, headers: last.headers })
    },
  })
  relay.url = `http://127.0.0.1:${server.port}`
  return relay
}
