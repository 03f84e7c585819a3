import type { Server } from 'bun'
import { type SocketHandler, tunnelSocketOptions } from '../../../src/actors/tunnels/tunnel-socket.ts'
import { createTunnelTransport } from '../../../src/actors/tunnels/tunnel-transport.ts'
import { Tunnels, type TunnelsOptions } from '../../../src/actors/tunnels/tunnels.ts'
import { headers } from '../../../src/brand.ts'
import type { NodeId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { type NodeTunnel, startTunnel, type TunnelOptions } from '../../../src/node/tunnel/tunnel-client.ts'
import type { NodeRequest, NodeTransport } from '../../../src/transport/transport.ts'

export const quiet = createLog('silent', () => {})

/** Bun's handler as Elysia sets it: each socket's `data` hears of its own events. */
export const socketDispatch = {
  ...tunnelSocketOptions,
  data: {} as SocketHandler,
  open: (ws) => ws.data.open(ws),
  message: (ws, message) => ws.data.message(ws, message),
  drain: (ws) => ws.data.drain(),
  ping: (ws) => ws.data.ping(),
  pong: (ws) => ws.data.pong(),
  close: (ws, code, reason) => ws.data.close(ws, code, reason),
} satisfies Bun.WebSocketHandler<SocketHandler>

export interface TunnelServer {
  readonly tunnels: Tunnels
  readonly url: string
  readonly server: Server<SocketHandler>
  stop(): Promise<void>
}

/** The gateway's end alone, for a node that says its name and needs no proof. */
export function startTunnelServer(options: Partial<TunnelsOptions> & { readonly port?: number } = {}): TunnelServer {
  const tunnels = new Tunnels({ log: quiet, ...options })
  tunnels.start()
  const server = Bun.serve<SocketHandler>({
    hostname: '127.0.0.1',
    port: options.port ?? 0,
    idleTimeout: 0,
    websocket: socketDispatch,
    fetch: (request, self) => {
      const handler = tunnels.accept((request.headers.get(headers.nodeId) ?? '') as NodeId)
      if (handler === null) return new Response(null, { status: 503 })
      return self.upgrade(request, { data: handler }) ? undefined : new Response(null, { status: 400 })
    },
  })
  return {
    tunnels,
    server,
    url: `ws://127.0.0.1:${server.port}/`,
    stop: async () => {
      tunnels.stop()
      await server.stop(true)
    },
  }
}

export const nodeId: NodeId = 'node_0001'

export function dial(url: string, handle: TunnelOptions['handle'], more: Partial<TunnelOptions> = {}): NodeTunnel {
  return startTunnel({ url, nodeId, sign: () => 'x', routerKid: () => 'kid', handle, log: () => {}, ...more })
}

export interface TunnelPair extends TunnelServer {
  readonly node: NodeTunnel
  readonly transport: NodeTransport
}

export async function tunnelPair(
  handle: TunnelOptions['handle'],
  more: Partial<TunnelOptions> & { readonly server?: Partial<TunnelsOptions> } = {},
): Promise<TunnelPair> {
  const gateway = startTunnelServer(more.server)
  const opened = nextOpen(gateway.tunnels)
  const node = dial(gateway.url, handle, more)
  await opened
  return {
    ...gateway,
    node,
    transport: createTunnelTransport(() => gateway.tunnels.session(nodeId)),
    stop: async () => {
      await node.stop(0)
      await gateway.stop()
    },
  }
}

export function nextOpen(tunnels: Tunnels): Promise<void> {
  return new Promise((resolve) => {
    const end = tunnels.subscribe({
      onOpen: () => {
        end()
        resolve()
      },
    })
  })
}

export const get: NodeRequest = { method: 'GET', signal: new AbortController().signal }
export const post = (body: string): NodeRequest => ({ ...get, method: 'POST', body })
