import type { Socket } from 'bun'

/** A chat client on a bare socket that reads only when it is told to. */
export interface RawClient {
  /** Bytes read so far, headers included. */
  readonly received: number
  /** The last few hundred characters read. */
  readonly tail: string
  readonly closed: Promise<void>
  read(): void
  pause(): void
  leave(): void
}

const tailLength = 400

export async function connectRawClient(gatewayUrl: string, key: string, body: object): Promise<RawClient> {
  const { hostname, port } = new URL(gatewayUrl)
  const text = JSON.stringify(body)
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  let received = 0
  let tail = ''
  const socket: Socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_socket, bytes) => {
        received += bytes.length
        tail = (tail + Buffer.from(bytes).toString('latin1')).slice(-tailLength)
      },
      close: () => resolve(),
      error: () => {},
    },
  })
  socket.pause()
  socket.write(
    `POST /v1/api/chat/completions HTTP/1.1\r\nhost: ${hostname}:${port}\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
  return {
    get received() {
      return received
    },
    get tail() {
      return tail
    },
    closed,
    read: () => socket.resume(),
    pause: () => socket.pause(),
    leave: () => socket.terminate(),
  }
}
