import { greeting, ready, ZmtpReader } from './zmtp.ts'

/** Bytes that wait for a peer to read them. One that asks and does not read its answers is left. */
const unsentBytesMax = 64 * 1024

/** Where a server's socket is. */
export interface Endpoint {
  readonly hostname: string
  readonly port: number
}

export interface ZmtpSocketOptions {
  readonly endpoint: Endpoint
  /** What this end is. */
  readonly socketType: 'SUB' | 'DEALER'
  /** The peer has said what it is, so that it can be sent messages. */
  readonly onReady: (send: (bytes: Uint8Array) => void) => void
  readonly onMessage: (frames: readonly Uint8Array[]) => void
  /** Once, however it has ended; never after `close`. */
  readonly onEnd: () => void
}

/** Opens a connection. What it returns closes it, also while it is being opened. */
export function openZmtp({ endpoint, socketType, onReady, onMessage, onEnd }: ZmtpSocketOptions): () => void {
  let open: { write(bytes: Uint8Array): number; terminate(): void } | null = null
  let ended = false
  let unsent: Uint8Array = new Uint8Array(0)
  const end = () => {
    if (ended) return
    ended = true
    open?.terminate()
    onEnd()
  }
  const flush = () => {
    if (unsent.length > 0) unsent = unsent.subarray(Math.max(0, open?.write(unsent) ?? 0))
  }
  /** All that is ever sent is a greeting, a command and a message or two. */
  const send = (bytes: Uint8Array) => {
    if (ended) return
    unsent = Buffer.concat([unsent, bytes])
    flush()
    if (unsent.length > unsentBytesMax) end()
  }
  const reader = new ZmtpReader({ onReady: () => onReady(send), onMessage, answer: send })
  Bun.connect({
    ...endpoint,
    socket: {
      open: (socket) => {
        if (ended) return socket.terminate()
        open = socket
        send(Buffer.concat([greeting(), ready(socketType)]))
      },
      data: (_, piece) => {
        if (ended) return
        try {
          reader.push(piece)
        } catch {
          end()
        }
      },
      drain: flush,
      close: end,
      error: end,
      connectError: end,
    },
  }).catch(end)
  return () => {
    ended = true
    open?.terminate()
  }
}
