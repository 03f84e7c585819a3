import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'

/** A port in front of others: where new connections lead can change, and what is open can go silent or be cut. */
export interface TcpSwitch {
  readonly port: number
  /** 0: connections are refused at once. */
  target: number
  /** Connections so far, refused ones too. */
  readonly connections: () => number
  /** Nothing passes any more on what is open now; nobody is told. */
  silence(): void
  /** Resets what is open now. */
  cut(): void
  stop(): void
}

export async function tcpSwitch(target: number): Promise<TcpSwitch> {
  const open = new Set<Socket>()
  let connections = 0
  const self = { target }
  const keep = (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
  }
  const server = createServer((client) => {
    connections++
    keep(client)
    if (self.target === 0) return client.resetAndDestroy()
    const node = createConnection(self.target, '127.0.0.1')
    keep(node)
    client.pipe(node).pipe(client)
    client.on('close', () => node.destroy())
    node.on('close', () => client.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return Object.assign(self, {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    silence: () => {
      for (const socket of open) socket.unpipe().pause()
    },
    cut: () => {
      for (const socket of [...open]) socket.resetAndDestroy()
    },
    stop: () => {
      server.close()
      for (const socket of [...open]) socket.destroy()
    },
  })
}
