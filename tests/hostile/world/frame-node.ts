import { newId } from '../../../src/ids.ts'
import type { SigningKey } from '../../../src/protocol/signing/ed25519.ts'
import { statusMessage } from '../../../src/protocol/signing/signatures.ts'
import { decodeFrame, type OpenHead } from '../../../src/protocol/tunnel/tunnel-frames.ts'
import { isoTime } from '../../../src/time.ts'
import { helloHeaders } from '../../support/nodes/hello.ts'
import { agentRuntime } from '../../support/nodes/scripted-agent.ts'
import type { Wanted } from './answer-draft.ts'
import type { TwistedNode } from './asking-lane.ts'
import { goodCompletion, goodStream } from './bytes-node.ts'
import { type FrameMove, frame, frameMoves, frameTypes } from './frame-answer.ts'
import type { FrameTwist } from './frame-twists.ts'
import { markersOf } from './markers.ts'
import type { Confided } from './quoting.ts'

export interface FrameNodeOptions {
  readonly gatewayUrl: string
  readonly identity: SigningKey
  readonly nodeId: string
  readonly routerKid: string
  readonly model: string
}

/** The type of the DOM has no headers. */
const BunWebSocket = WebSocket as unknown as new (url: string, options: Bun.WebSocketOptions) => Bun.WebSocket
const redialMs = 20

interface Planned {
  readonly twists: readonly FrameTwist[]
  readonly wanted: Wanted
}

/** A node that dials in, proves who it is, says truly how it is, and answers chats by whatever frames it was told. */
export class FrameNode implements TwistedNode<FrameTwist> {
  private readonly plans = new Map<string, Planned>()
  readonly written = new Map<string, number>()
  readonly signatures = new Map<string, string>()
  private readonly links = new Set<Link>()
  private readonly waiting = new Set<() => void>()
  /** No two nodes may have one in common. */
  private readonly runtimeId = newId('rt')
  private isQuiet = true
  private stopped = false

  constructor(readonly options: FrameNodeOptions) {
    this.dial()
  }

  dial(): void {
    if (this.stopped) return
    const { gatewayUrl, identity, nodeId, routerKid } = this.options
    const ws = new BunWebSocket(`${gatewayUrl.replace('http', 'ws')}/v1/node-agent/tunnel`, {
      headers: helloHeaders(identity, nodeId, routerKid),
      protocols: ['svc-tunnel-v1'],
    })
    const link = new Link(this, ws)
    this.links.add(link)
    ws.onclose = () => {
      link.closed = true
      this.links.delete(link)
      if (this.links.size === 0) setTimeout(() => this.dial(), redialMs)
    }
  }

  plan(marker: string, twists: readonly FrameTwist[], wanted: Wanted): boolean {
    this.plans.set(marker, { twists, wanted })
    // Each request has a number of its own: what comes twice or late is nobody's.
    return false
  }

  planned(marker: string): Planned | undefined {
    return this.plans.get(marker)
  }

  forget(marker: string): void {
    this.plans.delete(marker)
    this.written.delete(marker)
    this.signatures.delete(marker)
  }

  wrote(marker: string): number {
    return this.written.get(marker) ?? 0
  }

  confidedWith(marker: string): readonly string[] {
    const signature = this.signatures.get(marker)
    return signature === undefined ? [] : [signature]
  }

  quiet(now: boolean): void {
    this.isQuiet = now
    if (!now) return
    for (const go of this.waiting) go()
    this.waiting.clear()
  }

  /** False: the moment has passed. */
  untilQuiet(): Promise<boolean> {
    if (this.isQuiet) return Promise.resolve(false)
    return new Promise((resolve) => void this.waiting.add(() => resolve(true)))
  }

  rest(): void {
    this.written.clear()
    this.signatures.clear()
  }

  stop(): void {
    this.stopped = true
    for (const { ws } of this.links) ws.terminate()
  }

  statusText(nonce: string): string {
    const { identity, nodeId, model } = this.options
    const runtimes = [agentRuntime(this.runtimeId, [model], { slots_total: null, slots_free: null })]
    const unsigned = { node_id: nodeId, sent_at: isoTime(Date.now()), runtimes, transport_keys: [] }
    return JSON.stringify({ ...unsigned, signature_ed25519: identity.sign(statusMessage(nodeId, nonce, unsigned)) })
  }
}

const signatureHeader = 'x-svc-router-signature'

function confidedBy(headers: Readonly<Record<string, string>>): Confided | null {
  const value = headers[signatureHeader]
  return value === undefined ? null : { name: signatureHeader, value, secret: /sig=(.*)$/.exec(value)?.[1] ?? value }
}

/** One tunnel. */
class Link {
  closed = false
  /** Of the request that is being answered. */
  private marker = ''
  private readonly requests = new Map<number, { readonly head: OpenHead; body: string }>()

  constructor(
    private readonly node: FrameNode,
    readonly ws: Bun.WebSocket,
  ) {
    ws.binaryType = 'nodebuffer'
    ws.onmessage = ({ data }) => this.hear(data as Buffer)
    ws.onerror = () => {}
  }

  private hear(message: Buffer): void {
    const heard = decodeFrame(message)
    if (heard.kind === 'open') this.requests.set(heard.id, { head: heard.head, body: '' })
    else if (heard.kind === 'goAway') this.node.dial()
    else if (heard.kind === 'data') {
      const request = this.requests.get(heard.id)
      if (request !== undefined) request.body += heard.bytes.toString('latin1')
      const credit = Buffer.alloc(4)
      credit.writeUInt32BE(heard.bytes.length)
      this.send(frame(frameTypes.window, heard.id, credit))
    } else if (heard.kind === 'end' || heard.kind === 'reset') {
      const request = this.requests.get(heard.id)
      this.requests.delete(heard.id)
      if (heard.kind === 'end' && request !== undefined) void this.answer(heard.id, request.head, request.body)
    }
  }

  private async answer(id: number, { headers, path }: OpenHead, body: string): Promise<void> {
    if (path === '/svc/v1/status') return this.say(id, this.node.statusText(headers['x-svc-status-nonce'] ?? ''))
    const [marker = ''] = markersOf(body)
    const plan = this.node.planned(marker)
    this.marker = marker
    if (plan === undefined) {
      return this.say(id, body.includes('"stream":true') ? goodStream(marker) : goodCompletion(marker))
    }
    const confided = confidedBy(headers)
    if (confided !== null) this.node.signatures.set(marker, confided.secret)
    for (const move of frameMoves(plan.twists, { id, marker, wanted: plan.wanted, confided })) {
      this.marker = marker
      if (this.closed || !(await this.make(move))) return
    }
  }

  private async make(move: FrameMove): Promise<boolean> {
    if (move.do === 'send') this.send(move.message)
    else if (move.do === 'quiet') return this.node.untilQuiet()
    else if (move.do === 'close') this.ws.close()
    else if (move.do === 'terminate') this.ws.terminate()
    else this.node.dial()
    return true
  }

  private say(id: number, body: string): void {
    this.send(frame(frameTypes.head, id, '{"status":200,"headers":{}}'))
    this.send(frame(frameTypes.data, id, body))
    this.send(frame(frameTypes.end, id))
  }

  private send(message: Buffer | string): void {
    if (this.marker !== '') this.node.written.set(this.marker, this.node.wrote(this.marker) + message.length)
    if (!this.closed && this.ws.readyState === WebSocket.OPEN) this.ws.send(message as Buffer<ArrayBuffer>)
  }
}
