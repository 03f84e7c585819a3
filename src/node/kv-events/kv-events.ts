import { type Backoff, backoffMs } from '../../backoff.ts'
import { Alarm } from '../../clock.ts'
import { CachedBlocks } from './cached-blocks.ts'
import { unpacked } from './msgpack.ts'
import { askReplay, type Batch, seqOf } from './replay.ts'
import { subscription } from './zmtp.ts'
import { type Endpoint, openZmtp } from './zmtp-socket.ts'

export interface KvEventsOptions {
  /** Where the server publishes (`--kv-events-config`, `endpoint`). */
  readonly events: Endpoint
  /** Where it sends batches again (`replay_endpoint`). null: it does not. */
  readonly replay: Endpoint | null
  /** Between two tries to reach it. */
  readonly backoff?: Backoff
  /** Between two replays where events are lost again and again, ms. */
  readonly replayPauseMs?: number
}

const reachBackoff: Backoff = { firstMs: 1_000, maxMs: 30_000 }
/** Batches, and their bytes, that come while others are replayed. */
const heldMax = 4_096
const heldBytesMax = 64 * 1024 * 1024
const replayPauseMsUsual = 5_000

/**
 * Follows the events by which vLLM and SGLang tell what is in their prefix cache: msgpack over ZeroMQ, each batch with a number.
 * https://docs.vllm.ai/en/latest/api/vllm/distributed/kv_events.html
 */
export class KvEvents {
  readonly blocks = new CachedBlocks()
  private close: () => void
  private failures = 0
  private stopped = false
  /** The place of the next batch; null: none has been read on this connection. */
  private next: number | null = null
  /** Batches that wait for the end of a replay. null: none is under way. */
  private held: Batch[] | null = null
  private heldBytes = 0
  private replayedAtMs = Number.NEGATIVE_INFINITY
  private endReplay: () => void = () => {}
  private readonly again = new Alarm(() => this.reach(), undefined, false)
  private readonly replayLater = new Alarm(() => this.replay(), undefined, false)

  constructor(private readonly options: KvEventsOptions) {
    this.close = this.open()
  }

  stop(): void {
    this.stopped = true
    this.again.clear()
    this.replayLater.clear()
    this.endReplay()
    this.close()
  }

  private open(): () => void {
    return openZmtp({
      endpoint: this.options.events,
      socketType: 'SUB',
      onReady: (send) => {
        this.failures = 0
        send(subscription(''))
        // What was published before is in the cache, too.
        this.replay()
      },
      onMessage: ([, place, payload]) => {
        const seq = seqOf(place)
        if (seq !== null && payload !== undefined) this.published({ seq, payload })
      },
      onEnd: () => this.ended(),
    })
  }

  private reach(): void {
    if (!this.stopped) this.close = this.open()
  }

  /** A server that went away comes back with an empty cache, or with one of which something was missed. */
  private ended(): void {
    this.endReplay()
    this.replayLater.clear()
    this.held = null
    this.next = null
    this.replayedAtMs = Number.NEGATIVE_INFINITY
    this.blocks.lost()
    this.failures++
    this.again.set(backoffMs(this.options.backoff ?? reachBackoff, this.failures))
  }

  private published(batch: Batch): void {
    if (this.held !== null) return this.hold(batch)
    if (batch.seq === this.next || batch.seq === 0 || this.options.replay === null) return this.readOn(batch)
    const pauseMs = this.replayedAtMs + (this.options.replayPauseMs ?? replayPauseMsUsual) - performance.now()
    if (pauseMs > 0) {
      this.replayLater.set(pauseMs)
      return this.readOn(batch)
    }
    this.replay()
    this.hold(batch)
  }

  private hold(batch: Batch): void {
    if (this.held === null) return
    this.heldBytes += batch.payload.length
    if (this.held.length < heldMax && this.heldBytes <= heldBytesMax) this.held.push(batch)
  }

  /** A batch that does not follow shows that others were lost. */
  private readOn(batch: Batch): void {
    if (batch.seq === 0) this.blocks.begun()
    else if (batch.seq !== this.next) this.blocks.lost()
    this.read(batch)
  }

  private read({ seq, payload }: Batch): void {
    this.next = seq + 1
    try {
      this.blocks.take(unpacked(payload))
    } catch {
      // What it says cannot be read, so that something may be missing.
      this.blocks.lost()
    }
  }

  /** Asks for everything from the next batch on, or from the first where something unknown may be in the cache. */
  private replay(): void {
    const { replay } = this.options
    if (replay === null || this.stopped) return
    this.endReplay()
    this.replayLater.clear()
    this.held = []
    this.heldBytes = 0
    let replayed = 0
    const from = this.blocks.count() === null ? 0 : (this.next ?? 0)
    this.endReplay = askReplay(replay, from, {
      onBatch: (batch) => {
        replayed++
        this.readOn(batch)
      },
      onEnd: (whole) => {
        // A server that has published nothing has nothing in its cache.
        if (whole && replayed === 0 && this.next === null) this.blocks.begun()
        this.replayed(whole)
      },
    })
  }

  /** What came meanwhile follows. */
  private replayed(whole: boolean): void {
    const held = this.held ?? []
    this.held = null
    this.replayedAtMs = performance.now()
    if (!whole) this.blocks.lost()
    for (const batch of held) if (batch.seq >= (this.next ?? 0)) this.readOn(batch)
  }
}
