import type { Socket } from 'bun'
import { lasts } from '../run/lasts.ts'
import { waitLimitMs } from '../run/limits.ts'

/** A client on a bare socket that reads only when it is told to. */
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

export async function connectRawClient(
  gatewayUrl: string,
  key: string,
  body: object,
  path = '/v1/api/chat/completions',
): Promise<RawClient> {
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
    `POST ${path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nauthorization: Bearer ${key}\r\n` +
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

/** What a server says to these very bytes until it closes; `open` when it has not after `withinMs`. */
export interface RawExchange {
  /** Of the first answer; 0: none. */
  readonly status: number
  readonly text: string
  readonly ended: 'closed' | 'open'
  readonly ms: number
}

/** Sends bytes, then whatever `drip` gives every so often, and waits for the end of the connection. */
export async function rawExchange(
  url: string,
  bytes: string,
  more: { readonly withinMs?: number; readonly drip?: { readonly text: string; readonly everyMs: number } } = {},
): Promise<RawExchange> {
  const { hostname, port } = new URL(url)
  const { promise: closed, resolve } = Promise.withResolvers<'closed'>()
  const beganMs = performance.now()
  let text = ''
  const socket: Socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_socket, chunk) => {
        text += Buffer.from(chunk).toString('latin1')
      },
      close: () => resolve('closed'),
      error: () => resolve('closed'),
    },
  })
  socket.write(bytes)
  const { drip, withinMs = waitLimitMs } = more
  const dripping = drip === undefined ? null : setInterval(() => socket.write(drip.text), drip.everyMs)
  const ended = await Promise.race([closed, lasts(withinMs).then(() => 'open' as const)])
  if (dripping !== null) clearInterval(dripping)
  socket.terminate()
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
  return { status, text, ended, ms: performance.now() - beganMs }
}
