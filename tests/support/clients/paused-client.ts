import { connect, type Socket } from 'node:net'

/** A request whose answer is begun and not read: only its head was, and what came with it. */
export interface PausedAnswer {
  readonly status: number
  /** The client leaves. */
  leave(): void
}

/** `body`: absent for a GET. */
export async function pausedAnswer(
  url: string,
  headers: Readonly<Record<string, string>>,
  body?: string,
): Promise<PausedAnswer> {
  const { host, hostname, port, pathname } = new URL(url)
  const socket: Socket = connect({ host: hostname, port: Number(port) })
  const sent = {
    host,
    ...headers,
    ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
  }
  const lines = Object.entries(sent).map(([name, value]) => `${name}: ${value}`)
  socket.write(
    `${body === undefined ? 'GET' : 'POST'} ${pathname} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body ?? ''}`,
  )
  const { promise, resolve, reject } = Promise.withResolvers<PausedAnswer>()
  socket.once('error', reject)
  socket.once('data', (bytes: Buffer) => {
    socket.pause()
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(bytes.toString('latin1'))?.[1])
    resolve({ status, leave: () => socket.destroy() })
  })
  return promise
}
