import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'

export interface CountedDatabase {
  /** The same database through a proxy. */
  readonly url: string
  /** Connections that were opened so far. */
  readonly connections: number
  /** The texts of the statements that were prepared so far. */
  readonly prepared: readonly string[]
  close(): Promise<void>
}

const [parse, lengthBytes] = [0x50, 4]

/** Reads the messages of a client of PostgreSQL's protocol: the first has no letter before its length. */
class ClientMessages {
  private left = Buffer.alloc(0)
  private begun = false

  constructor(private readonly onPrepared: (text: string) => void) {}

  read(chunk: Buffer): void {
    let bytes = Buffer.concat([this.left, chunk])
    for (;;) {
      const letters = this.begun ? 1 : 0
      if (bytes.length < letters + lengthBytes) break
      const size = letters + bytes.readUInt32BE(letters)
      if (bytes.length < size) break
      if (this.begun && bytes[0] === parse) {
        const [, text = ''] = bytes
          .subarray(letters + lengthBytes, size)
          .toString('utf8')
          .split('\0')
        this.onPrepared(text)
      }
      this.begun = true
      bytes = bytes.subarray(size)
    }
    this.left = bytes
  }
}

function upstream(url: URL): Socket {
  const port = url.port === '' ? '5432' : url.port
  const folder = url.searchParams.get('host')
  return folder === null ? connect(Number(port), url.hostname) : connect(join(folder, `.s.PGSQL.${port}`))
}

/** A way to the database that counts what its clients open and prepare. Without encryption, as the databases of the tests are. */
export async function counted(databaseUrl: string): Promise<CountedDatabase> {
  const target = new URL(databaseUrl)
  const prepared: string[] = []
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((client) => {
    connections++
    const database = upstream(target)
    const messages = new ClientMessages((text) => prepared.push(text))
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
    }
    client.on('data', (chunk: Buffer) => messages.read(chunk))
    client.on('close', () => database.destroy())
    database.on('close', () => client.destroy())
    client.pipe(database)
    database.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = new URL(databaseUrl)
  url.searchParams.delete('host')
  url.hostname = '127.0.0.1'
  url.port = String(address !== null && typeof address !== 'string' ? address.port : 0)
  return {
    url: url.toString(),
    get connections() {
      return connections
    },
    prepared,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
