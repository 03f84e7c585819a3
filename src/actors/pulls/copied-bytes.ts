import { systemClock } from '../../clock.ts'
import { ClientStream } from '../../transport/client-stream.ts'
import type { BodySink, NodeResponse } from '../../transport/transport.ts'
import type { CopyPace } from './copy-pace.ts'
import { HeldFlow } from './held-flow.ts'

/** Bytes that may wait for the node that gets them before the one that has them is held back. */
export const waitingBytesMax = 128 * 1024

/** Bytes of a file on their way from one node to another, as they come; nothing of them is kept. */
export class CopiedBytes implements BodySink {
  private readonly client = new ClientStream<Uint8Array>(waitingBytesMax, () => this.leave())
  private readonly flow: HeldFlow | null
  private left: number
  private over = false

  /** `bytes`: that were promised. `done`: called once, when no more comes. */
  constructor(
    private readonly response: NodeResponse,
    bytes: number,
    private readonly pace: Pick<CopyPace, 'passed'>,
    private readonly done: () => void,
  ) {
    this.left = bytes
    this.flow = response.flow === null ? null : new HeldFlow(response.flow, () => pace.passed(0), systemClock)
    this.client.source = this.flow
    response.read(this)
  }

  get stream(): ReadableStream<Uint8Array> {
    return this.client.stream
  }

  bytes(chunk: Buffer): void {
    if (this.over) return
    this.left -= chunk.length
    if (this.left >= 0) return this.passOn(chunk)
    this.response.discard()
    this.end()
  }

  private passOn(chunk: Buffer): void {
    const heldMs = this.pace.passed(chunk.length)
    if (heldMs > 0) this.flow?.hold(heldMs)
    this.client.write(chunk, performance.now())
  }

  ended(): void {
    this.end()
  }

  failed(): void {
    this.end()
  }

  /** The node that gets them has left. */
  private leave(): void {
    if (this.over) return
    this.response.discard()
    this.end()
  }

  /**
   * Whole or not: its reader knows how many bytes there are, and goes on where they end. A connection that was reset would lose what it has
   * on its way.
   */
  private end(): void {
    if (this.over) return
    this.over = true
    this.flow?.stop()
    this.client.close()
    this.done()
  }
}
