import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

export interface SeverableDatabase {
  /** The same database through a proxy. */
  readonly url: string
  /** Every connection is reset and new ones are refused. */
  sever(): Promise<void>
  restore(): Promise<void>
  /** What is asked on the connections of now still arrives, and every answer is lost, until they are severed. */
  muffle(): void
  close(): Promise<void>
}

function upstream(url: URL): Socket {
  const folder = url.searchParams.get('host')
  if (folder !== null) return connect(join(folder, `.s.PGSQL.${url.port === '' ? '5432' : url.port}`))
  return connect(Number(url.port === '' ? '5432' : url.port), url.hostname)
}

/** A way to the database that a test can cut while the server itself goes on. */
export async function severable(databaseUrl: string): Promise<SeverableDatabase> {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const answering = new Set<Socket>()
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
  }
  let server: Server | null = null
  let port = 0
  const listen = async () => {
    const listening = createServer((client) => {
      const database = upstream(target)
      keep(client)
      keep(database)
      client.on('close', () => database.destroy())
      database.on('close', () => client.destroy())
      client.pipe(database)
      database.pipe(client)
      answering.add(database)
      database.on('close', () => answering.delete(database))
    })
    await new Promise<void>((resolve, reject) => {
      listening.once('error', reject)
      listening.listen(port, '127.0.0.1', resolve)
    })
    const address = listening.address()
    if (address !== null && typeof address !== 'string') port = address.port
    server = listening
  }
  const sever = async () => {
    const closing = server
    server = null
    if (closing === null) return
    const closed = new Promise<void>((resolve) => closing.close(() => resolve()))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await listen()
  const url = new URL(databaseUrl)
  url.searchParams.delete('host')
  url.hostname = '127.0.0.1'
  url.port = String(port)
  const muffle = () => {
    for (const database of answering) database.unpipe().resume()
  }
  return { url: url.toString(), sever, restore: listen, muffle, close: sever }
}
