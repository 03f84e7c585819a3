import type { Socket } from 'bun'
import { promptly } from '../../support/run/pace.ts'
import { type Answer, readAnswers } from './answers.ts'

/** Where a gateway listens. */
export interface Place {
  readonly hostname: string
  readonly port: number
  /** In the place of both: a Unix socket. */
  readonly unix?: string
}

/** Bytes for a gateway, one write after the other. */
export interface Speech {
  readonly writes: readonly (Buffer | string)[]
  /** Between two writes, ms. */
  readonly pauseMs?: number
  /** After the last write the client ends its half. */
  readonly halfClose?: boolean
  /** The client is gone so long after its last write, ms. */
  readonly leaveAfterMs?: number
  /** The client is gone when it has read so many bytes. */
  readonly leaveAfterBytes?: number
  /** It reads nothing for so long at first, ms. */
  readonly deafMs?: number
  /** It is connected before and says nothing until then. */
  readonly after?: Promise<unknown>
}

export interface Heard {
  readonly text: string
  readonly answers: readonly Answer[]
  /** `closed` by the gateway; `left` by ourselves; `late`: nothing ended it in time. */
  readonly end: 'closed' | 'left' | 'late'
}

/** No deadline of the gateway is as long; on a busy machine it is more. */
const lateMs = 20_000

/** A chat as a client of its own would write it; `closing`: the connection ends with its answer. */
export function chatBytes({ hostname, port }: Place, key: string, body: string, closing = true): string {
  const head = [
    'POST /v1/api/chat/completions HTTP/1.1',
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(closing ? ['Connection: close'] : []),
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

/** Says it on a connection of its own, and hears all until the connection ends. */
export function speak(place: Place, speech: Speech): Promise<Heard> {
  return new Promise((resolve) => new Conversation(speech, resolve).begin(place))
}

class Conversation {
  private readonly heard: Buffer[] = []
  private heardBytes = 0
  private socket: Socket | null = null
  private unsent: Buffer = Buffer.alloc(0)
  private at = 0
  private over = false
  private resume: (() => void) | null = null
  private readonly beganMs = performance.now()
  private late = setTimeout(() => this.isLate(), lateMs)

  constructor(
    private readonly speech: Speech,
    private readonly done: (heard: Heard) => void,
  ) {}

  begin({ hostname, port, unix }: Place): void {
    const socket: Bun.SocketHandler<undefined> = {
      open: (opened) => {
        this.socket = opened
        this.deafen(opened)
        void this.say()
      },
      data: (_, bytes) => this.hear(bytes),
      drain: () => this.flush(),
      end: () => this.end('closed'),
      close: () => this.end('closed'),
      error: () => this.end('closed'),
    }
    const connected = unix === undefined ? Bun.connect({ hostname, port, socket }) : Bun.connect({ unix, socket })
    connected.catch(() => this.end('closed'))
  }

  private deafen(socket: Socket): void {
    const { deafMs } = this.speech
    if (deafMs === undefined) return
    socket.pause()
    setTimeout(() => socket.resume(), deafMs)
  }

  private async say(): Promise<void> {
    const { writes, pauseMs = 0, halfClose = false, leaveAfterMs, after } = this.speech
    await after
    for (const piece of writes) {
      if (this.over) return
      if (this.at++ > 0 && pauseMs > 0) await Bun.sleep(pauseMs)
      await this.write(typeof piece === 'string' ? Buffer.from(piece) : piece)
    }
    if (halfClose) this.socket?.shutdown()
    if (leaveAfterMs !== undefined) setTimeout(() => this.end('left'), leaveAfterMs)
  }

  private write(bytes: Buffer): Promise<void> {
    this.unsent = bytes
    return new Promise((resolve) => {
      this.resume = resolve
      this.flush()
    })
  }

  private flush(): void {
    if (this.socket === null || this.resume === null) return
    const sent = this.over || this.unsent.length === 0 ? -1 : this.socket.write(this.unsent)
    this.unsent = sent < 0 ? Buffer.alloc(0) : this.unsent.subarray(sent)
    if (this.unsent.length > 0) return
    const { resume } = this
    this.resume = null
    resume()
  }

  private isLate(): void {
    const leftMs = promptly(lateMs) - (performance.now() - this.beganMs)
    if (leftMs <= 0) this.end('late')
    else this.late = setTimeout(() => this.isLate(), leftMs)
  }

  private hear(bytes: Buffer): void {
    this.heard.push(Buffer.from(bytes))
    this.heardBytes += bytes.length
    const { leaveAfterBytes } = this.speech
    if (leaveAfterBytes !== undefined && this.heardBytes >= leaveAfterBytes) this.end('left')
  }

  private end(how: Heard['end']): void {
    if (this.over) return
    this.over = true
    clearTimeout(this.late)
    this.socket?.terminate()
    this.flush()
    const text = Buffer.concat(this.heard).toString('latin1')
    this.done({ text, answers: readAnswers(text), end: how })
  }
}
