import type { Socket } from 'bun'
import { markersOf } from './markers.ts'
import type { Confided, Told } from './quoting.ts'

/** What a node does with its connection, in order. */
/** What a packed answer may unfold to for each of its bytes. */
const unfoldedTimesMax = 64
const headBytesMax = 16_384

export type Move =
  | { readonly do: 'write'; readonly bytes: Buffer }
  | { readonly do: 'wait'; readonly ms: number }
  /** Until no request of this batch is on its way: what is then written belongs to nobody who waits. */
  | { readonly do: 'quiet' }
  /** The same again and again, as fast as it is read, at most so many bytes. */
  | { readonly do: 'flood'; readonly bytes: Buffer; readonly bytesMax: number }
  | { readonly do: 'end' }
  | { readonly do: 'reset' }

export interface Play {
  /** By what it was told in the request that is answered. */
  moves(told: Told): readonly Move[]
  /** Before the body of the request has come whole. */
  readonly early: boolean
}

export interface BytesNode {
  readonly url: string
  /** Resolves when so many more polls have come. */
  polled(times: number): Promise<void>
  /** Sockets that are open. */
  readonly open: number
  /** What is done for the request with this marker; without it the request is answered as it should be. */
  plan(marker: string, play: Play): void
  forget(marker: string): void
  /** Bytes written in answer to requests with this marker, until it is forgotten. */
  wrote(marker: string): number
  /** What its polls are answered with; null: as it should be. */
  polls(play: Play | null): void
  /** See `Move`. Until the next call no request is on its way. */
  quiet(now: boolean): void
  closeAll(): void
  stop(): void
}

const bodyOf = (body: string, more = '') =>
  Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )

export const plainUsage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }

export function goodCompletion(text: string): string {
  const choices = [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }]
  return JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices, usage: plainUsage })
}

export function goodStream(text: string): string {
  const chunk = (delta: object, finish: string | null, more: object = {}) =>
    `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`
  const said = chunk({ role: 'assistant', content: '' }, null) + chunk({ content: text }, null)
  return `${said}${chunk({}, 'stop', { usage: plainUsage })}data: [DONE]\n\n`
}

function goodAnswer(request: string, marker: string): Buffer {
  if (request.startsWith('POST /v1/audio/')) return bodyOf(JSON.stringify({ text: marker }))
  if (!request.includes('"stream":true')) return bodyOf(goodCompletion(marker))
  const body = goodStream(marker)
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
  return Buffer.from(`${head}${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`)
}

/** A model server on a bare socket: reads requests as it should, and answers with whatever it was told. */
export function startBytesNode(model: string): BytesNode {
  return new Listener(model)
}

class Listener implements BytesNode {
  private readonly polling = new Set<{ left: number; readonly come: () => void }>()
  pollPlay: Play | null = null
  isQuiet = true
  readonly plans = new Map<string, Play>()
  readonly written = new Map<string, number>()
  readonly lines = new Set<Line>()
  readonly waiting = new Set<() => void>()
  private readonly server
  readonly models: Buffer

  constructor(model: string) {
    this.models = bodyOf(JSON.stringify({ object: 'list', data: [{ id: model, object: 'model' }] }))
    this.server = Bun.listen<Line>({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        open: (socket) => {
          socket.data = new Line(this, socket)
          this.lines.add(socket.data)
        },
        data: (socket, bytes) => socket.data.hear(bytes),
        drain: (socket) => socket.data.drained?.(),
        end: (socket) => void socket.end(),
        close: (socket) => socket.data.gone(),
        error: () => {},
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`
  }

  get open(): number {
    return this.lines.size
  }

  polled(times: number): Promise<void> {
    return new Promise((come) => void this.polling.add({ left: times, come }))
  }

  wasPolled(): void {
    for (const one of this.polling) {
      one.left--
      if (one.left > 0) continue
      this.polling.delete(one)
      one.come()
    }
  }

  plan(marker: string, play: Play): void {
    this.plans.set(marker, play)
  }

  forget(marker: string): void {
    this.plans.delete(marker)
    this.written.delete(marker)
  }

  wrote(marker: string): number {
    return this.written.get(marker) ?? 0
  }

  polls(play: Play | null): void {
    this.pollPlay = play
  }

  quiet(now: boolean): void {
    this.isQuiet = now
    if (!now) return
    for (const go of this.waiting) go()
    this.waiting.clear()
  }

  closeAll(): void {
    this.written.clear()
    for (const line of this.lines) line.close()
  }

  stop(): void {
    this.closeAll()
    this.server.stop(true)
  }
}

/** The gateway writes its headers in small letters. */
function confidedBy(request: string): Confided | null {
  const value = /\r\nauthorization: ([^\r]*)/.exec(request)?.[1]
  return value === undefined ? null : { name: 'authorization', value, secret: value.replace('Bearer ', '') }
}

/** No form of ours has it within. */
const lastChunk = '\r\n0\r\n\r\n'

/** One connection of the gateway. */
class Line {
  drained: (() => void) | null = null
  /** It has said that it packs: each of its bytes may unfold to many (§27). */
  private packed = false
  private text = ''
  private closed = false
  /** Of the request at the beginning of `text`: it was begun to be answered before it was whole. */
  private begun = false
  private answering: Promise<void> = Promise.resolve()
  /** Of the request that is being answered. */
  private marker = ''

  constructor(
    private readonly node: Listener,
    private readonly socket: Socket<Line>,
  ) {}

  hear(bytes: Buffer): void {
    this.text += bytes.toString('latin1')
    while (this.readRequest());
  }

  private readRequest(): boolean {
    const end = this.text.indexOf('\r\n\r\n')
    if (end === -1) return false
    const until = end + 4 + this.bodyLength(end)
    const whole = this.text.length >= until
    const request = this.text.slice(0, until)
    if (!this.begun) this.begun = this.begin(request, whole)
    if (!whole) return false
    this.begun = false
    this.text = this.text.slice(until)
    return true
  }

  /** Infinity: nobody knows yet. A form that goes on while it comes has no length. */
  private bodyLength(headEnd: number): number {
    const head = this.text.slice(0, headEnd)
    if (!head.includes('transfer-encoding: chunked')) return Number(/content-length: ([0-9]+)/.exec(head)?.[1] ?? 0)
    return this.text.endsWith(lastChunk) ? this.text.length - headEnd - 4 : Number.POSITIVE_INFINITY
  }

  /** True when the answer has begun; pipelined requests are answered one after the other. */
  private begin(request: string, whole: boolean): boolean {
    if (request.startsWith('GET')) {
      this.node.wasPolled()
      const told = { marker: '', confided: confidedBy(request) }
      this.next('', this.node.pollPlay?.moves(told) ?? [{ do: 'write', bytes: this.pollAnswer(request) }])
      return true
    }
    const [marker = ''] = markersOf(request)
    const play = this.node.plans.get(marker)
    if (!whole && play?.early !== true) return false
    const told = { marker, confided: confidedBy(request) }
    this.next(marker, play?.moves(told) ?? [{ do: 'write', bytes: goodAnswer(request, marker) }])
    return true
  }

  private pollAnswer(request: string): Buffer {
    if (request.startsWith('GET /v1/models ')) return this.node.models
    return Buffer.from('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
  }

  private next(marker: string, moves: readonly Move[]): void {
    this.answering = this.answering.then(async () => {
      this.marker = marker
      for (const move of moves) {
        if (this.closed) return
        await this.make(move)
      }
    })
  }

  private make(move: Move): Promise<void> | void {
    switch (move.do) {
      case 'write':
        return this.write(move.bytes)
      case 'wait':
        return Bun.sleep(move.ms)
      case 'quiet':
        // Its moment has passed: what it would say now could be taken for the answer to another's request.
        if (this.node.isQuiet) return this.close()
        return new Promise((resolve) => void this.node.waiting.add(resolve))
      case 'flood':
        return this.flood(move.bytes, move.bytesMax)
      case 'end':
        return void this.socket.end()
      case 'reset':
        return this.close()
    }
  }

  private async flood(bytes: Buffer, bytesMax: number): Promise<void> {
    for (let sent = 0; sent < bytesMax && !this.closed; sent += bytes.length) await this.write(bytes)
  }

  private write(bytes: Buffer): Promise<void> | void {
    this.packed ||= /content-encoding/i.test(bytes.toString('latin1', 0, headBytesMax))
    const counted = (this.packed ? unfoldedTimesMax : 1) * bytes.length
    if (this.marker !== '') this.node.written.set(this.marker, this.node.wrote(this.marker) + counted)
    const sent = this.socket.write(bytes)
    if (sent < 0 || sent >= bytes.length) return
    return new Promise((resolve) => {
      let rest = bytes.subarray(sent)
      this.drained = () => {
        const more = this.closed ? -1 : this.socket.write(rest)
        if (more >= 0) rest = rest.subarray(more)
        if (more >= 0 && rest.length > 0) return
        this.drained = null
        resolve()
      }
    })
  }

  close(): void {
    this.socket.terminate()
  }

  gone(): void {
    this.closed = true
    this.drained?.()
    this.node.lines.delete(this)
  }
}
