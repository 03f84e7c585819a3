import type { Server } from 'bun'
import { joinCommitment, joinedMessage } from '../../../src/protocol/signing/join-words.ts'
import type { JoinBegun, JoinRevealed } from '../../../src/protocol/wire/nodes/join.ts'
import { newIdentity } from './enrolling.ts'
import { newJoiner } from './joining.ts'

export interface JoinRelay {
  readonly url: string
  stop(): Promise<void>
}

/** What the one in the middle does with a request; null: it passes it on, and the answer back. */
export type Meddling = (request: Request, body: string, pass: () => Promise<Response>) => Promise<Response | null>

/** Stands between an agent and its gateway on the network, as anybody can whom the agent takes for its gateway. */
export function startJoinRelay(
  gatewayUrl: string,
  meddle: Meddling = async () => null,
  { hostname = '127.0.0.1', port = 0 }: { readonly hostname?: string; readonly port?: number } = {},
): JoinRelay {
  const server: Server<undefined> = Bun.serve({
    port,
    hostname,
    fetch: async (request) => {
      const { pathname, search } = new URL(request.url)
      const body = await request.text()
      const init = {
        method: request.method,
        headers: { 'content-type': 'application/json' },
        ...(body === '' ? {} : { body }),
      }
      const pass = () => fetch(gatewayUrl + pathname + search, init)
      return (await meddle(request, body, pass)) ?? (await pass())
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}

/** Plays the gateway to the agent and an agent to the gateway, each with keys of its own; it confirms itself at the agent. */
export function inTheMiddle(gatewayUrl: string): { readonly meddle: Meddling; joinId: () => string } {
  const router = newIdentity()
  const nonce = newJoiner().nonce
  const toGateway = newJoiner()
  let joinId = ''
  const begun: JoinBegun = {
    join_id: `join_${'M'.repeat(26)}`,
    kid: router.keyId,
    public_key_ed25519: router.publicKey,
    commitment: joinCommitment('gateway', { publicKey: router.publicKey, nonce }),
    reveal_by: new Date().toISOString(),
  }
  const asks = async <T>(path: string, body: object) => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    const answer = await fetch(gatewayUrl + path, init)
    if (!answer.ok) throw new Error(`the gateway refused the one in the middle: ${answer.status}`)
    return (await answer.json()) as T
  }
  const meddle: Meddling = async (request, _, pass) => {
    const { pathname } = new URL(request.url)
    if (!pathname.startsWith('/v1/node-agent/join')) return pass()
    if (request.method === 'POST' && pathname === '/v1/node-agent/join') {
      joinId = (await asks<JoinBegun>(pathname, toGateway.request())).join_id
      return Response.json(begun, { status: 201 })
    }
    if (request.method === 'POST') {
      await asks(`/v1/node-agent/join/${joinId}`, { nonce: toGateway.nonce })
      return Response.json({ nonce, expires_at: new Date().toISOString() } satisfies JoinRevealed)
    }
    const enrollment = {
      status: 'enrolled',
      protocol_version: 1,
      node_id: 'node_evil',
      node_class: 'standard',
      visibility: 'public',
      privacy_class: 'public',
      router_public_keys: [{ kid: router.keyId, public_key_ed25519: router.publicKey }],
      tunnel_url: 'ws://127.0.0.1:9/',
      endpoint_url: null,
    } as const
    const signature = router.sign(joinedMessage(begun.join_id, enrollment))
    return Response.json({ state: 'confirmed', enrollment, signature_ed25519: signature })
  }
  return { meddle, joinId: () => joinId }
}
