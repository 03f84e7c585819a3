import type { Socket } from 'bun'

export interface HeldStreams {
  /** Streams whose first content has come. */
  open(): number
  /** Resolves when every stream has ended. */
  readonly ended: Promise<HeldResult>
  destroy(): void
}

export interface HeldResult {
  /** Ended with `[DONE]` and every chunk. */
  readonly complete: number
  readonly failed: number
}

interface Held {
  chunks: number
  tail: string
}

const rampPerTick = 50
const tickMs = 25
const tailChars = 64

/** So many streams at once, over bare sockets: a client that costs little beside what it measures. */
export function holdStreams(options: {
  readonly url: string
  readonly path: string
  readonly key: string
  readonly model: string
  readonly count: number
  readonly chunksEach: number
}): HeldStreams {
  const { hostname, port } = new URL(options.url)
  const messages = [{ role: 'user', content: 'hold' }]
  const body = JSON.stringify({ model: options.model, stream: true, messages })
  const head = `POST ${options.path} HTTP/1.1\r\nhost: ${hostname}:${port}\r\nauthorization: Bearer ${options.key}\r\n`
  const request = `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  const sockets = new Set<Socket<Held>>()
  let [open, complete, failed] = [0, 0, 0]
  let finish: (result: HeldResult) => void = () => {}
  const ended = new Promise<HeldResult>((resolve) => {
    finish = resolve
  })
  const over = (whole: boolean) => {
    if (whole) complete++
    else failed++
    if (complete + failed === options.count) finish({ complete, failed })
  }
  const data = (socket: Socket<Held>, bytes: Buffer) => {
    const held = socket.data
    const text = held.tail + bytes.toString('latin1')
    const fresh = text.split('"content":"m').length - 1 - (held.tail.split('"content":"m').length - 1)
    if (held.chunks === 0 && fresh > 0) open++
    held.chunks += fresh
    held.tail = text.slice(-tailChars)
    if (!held.tail.includes('data: [DONE]')) return
    sockets.delete(socket)
    socket.terminate()
    over(held.chunks === options.chunksEach)
  }
  const begin = () =>
    Bun.connect<Held>({
      hostname,
      port: Number(port),
      data: { chunks: 0, tail: '' },
      socket: {
        open: (socket) => {
          sockets.add(socket)
          socket.write(request)
        },
        data,
        close: (socket) => {
          if (sockets.delete(socket)) over(false)
        },
      },
    }).catch(() => over(false))
  let begun = 0
  const ramp = setInterval(() => {
    for (let at = 0; at < rampPerTick && begun < options.count; at++, begun++) void begin()
    if (begun === options.count) clearInterval(ramp)
  }, tickMs)
  return {
    open: () => open,
    ended,
    destroy: () => {
      clearInterval(ramp)
      for (const socket of sockets) socket.terminate()
    },
  }
}
