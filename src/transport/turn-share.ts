/** So long node bytes are worked on in one turn of the event loop; then everybody else has their turn, ms (§27). */
const turnMsMax = 8
const microsecondsPerMs = 1_000
/** The bytes after which the clock is read: in most turns never. */
const lookBytes = 16 * 1024
/** What waits with no more than this is a chunk or two of a stream, and goes first. */
const shortBytes = 4 * 1024

/** Bytes of a node that wait for a turn. */
interface WaitingBytes {
  /** Hands on as much as `takes` allows. */
  handOn(): void
}

/**
 * The share of node bytes in a turn of the event loop. One read of a socket has up to 512 kB, and what they cost is the
 * node's to decide: without a share, one of them holds up all other requests of the process.
 */
class TurnShare {
  private bytes = 0
  /** `performance.now()` of the first look in this turn; 0: there was none. */
  private startedMs = 0
  private startedCpu: NodeJS.CpuUsage | undefined
  private spent = false
  private endDue = false
  private waiting: WaitingBytes[] = []

  /** False: these bytes have to wait for the next turn. */
  takes(bytes: number): boolean {
    if (this.spent) return false
    this.bytes += bytes
    return this.bytes < lookBytes || this.look()
  }

  private look(): boolean {
    this.bytes = 0
    const nowMs = performance.now()
    if (this.startedMs === 0) {
      this.startedMs = nowMs
      this.startedCpu = process.cpuUsage()
      this.callEnd()
    } else this.spent = nowMs - this.startedMs >= turnMsMax && this.computedMs() >= turnMsMax
    return !this.spent
  }

  /** On a busy machine time passes in which this process computes nothing: to yield then gains nothing. */
  private computedMs(): number {
    const { user, system } = process.cpuUsage(this.startedCpu)
    return (user + system) / microsecondsPerMs
  }

  /** `bytes`: how many wait. */
  queue(one: WaitingBytes, bytes: number): void {
    if (bytes <= shortBytes) this.waiting.unshift(one)
    else this.waiting.push(one)
    this.callEnd()
  }

  private callEnd(): void {
    if (this.endDue) return
    this.endDue = true
    setImmediate(this.end)
  }

  private begin(): void {
    this.bytes = 0
    this.startedMs = 0
    this.spent = false
  }

  /** What waits has a share of its own: the reads of the next turn must not find theirs spent. */
  private readonly end = (): void => {
    this.endDue = false
    this.begin()
    const batch = this.waiting
    this.waiting = []
    let next = 0
    while (next < batch.length && !this.spent) batch[next++]?.handOn()
    if (next < batch.length) this.waiting.unshift(...batch.slice(next))
    this.begin()
    if (this.waiting.length > 0) this.callEnd()
  }
}

export const turnShare = new TurnShare()
