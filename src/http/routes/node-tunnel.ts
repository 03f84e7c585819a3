import { Elysia } from 'elysia'
import type { SocketHandler } from '../../actors/tunnels/tunnel-socket.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { tunnelProtocol } from '../../protocol/tunnel/tunnel-session.ts'
import type { HttpContext } from '../frame/context.ts'
import { refusedLogin } from '../frame/refused-login.ts'
import { describe } from '../frame/route-table.ts'
import { requestId } from '../plugins/request-id.ts'

/** Of Bun's server, as far as Elysia's type hides it. */
interface Upgrading {
  upgrade(
    request: Request,
    options: { readonly data: SocketHandler; readonly headers: Readonly<Record<string, string>> },
  ): boolean
}

export const tunnelRoute = '/v1/node-agent/tunnel'

/** False for requests of browsers and of programs with another protocol. */
function isTunnel({ headers: sent }: Request): boolean {
  const protocols = (sent.get('sec-websocket-protocol') ?? '').split(',').map((name) => name.trim())
  return sent.get('upgrade')?.toLowerCase() === 'websocket' && protocols.includes(tunnelProtocol)
}

/**
 * Where node agents dial in (§22). A plain GET that upgrades, and no `.ws` of Elysia: that one would parse
 * every frame, and a refusal is to come before the upgrade, in the words of every other refusal.
 */
export const nodeTunnelRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).get(
    tunnelRoute,
    async ({ exchange, request, server, set }) => {
      const { gateway } = context
      if (!isTunnel(request)) {
        throw new Problem('invalid_request', {
          detail: `This route expects a WebSocket of the protocol ${tunnelProtocol}`,
        })
      }
      const { headers: sent } = request
      const hello = {
        nodeId: sent.get(headers.nodeId),
        timestamp: sent.get(headers.nodeTimestamp),
        nonce: sent.get(headers.nodeNonce),
        signature: sent.get(headers.nodeSignature),
      }
      const data = await gateway.dialIn.tunnelDoor.admit(hello).catch((error: unknown) => {
        if (!(error instanceof Problem) || error.code !== 'tunnel_auth_failed') throw error
        throw refusedLogin(gateway, exchange.address, error)
      })
      const upgraded = (server as Upgrading | null)?.upgrade(request, {
        data,
        headers: { 'sec-websocket-protocol': tunnelProtocol, [headers.requestId]: exchange.requestId },
      })
      if (upgraded !== true)
        throw new Problem('invalid_request', { detail: 'This route expects a WebSocket handshake' })
      set.status = 101
      return undefined
    },
    {
      detail: {
        ...describe({
          summary: 'Open the tunnel of a node agent',
          description: 'This is a WebSocket. docs/protocol.md describes the hello, the frames and the close codes.',
          tags: ['Extensions'],
        }),
        security: [],
      },
    },
  )
