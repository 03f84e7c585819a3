import { Socket } from 'node:net'

/** The driver's parsed options, as it hands them to its `socket` option. */
interface Address {
  readonly host: readonly string[]
  readonly port: readonly number[]
  readonly path?: string | false
}

/**
 * A connection that, once open, ends with a `close` alone. Bun emits `error` and, some turns of the event loop later,
 * `close` with `hadError`; a query that the driver (3.4.9) sends in between is settled by neither and waits for ever:
 * seen whenever PostgreSQL restarts while queries run. A plain `close` makes the driver fail every query it has sent.
 */
class PlainCloseSocket extends Socket {
  #opened = false

  override emit(event: string | symbol, ...args: unknown[]): boolean {
    if (event === 'connect') this.#opened = true
    if (this.#opened && event === 'error') return true
    if (this.#opened && event === 'close') return super.emit('close', false)
    return super.emit(event as 'close', ...(args as [boolean]))
  }
}

/** The driver's `socket` option: several hosts are tried in turn, as the driver itself would. */
export function plainCloseSockets(): (address: Address) => Socket {
  let tries = 0
  return ({ host, port, path }) => {
    const socket = new PlainCloseSocket()
    const index = tries++ % host.length
    // What is written before the connection is open waits in the socket.
    if (path) socket.connect(path)
    else socket.connect(port[index] ?? 5432, host[index] ?? 'localhost')
    return socket
  }
}
