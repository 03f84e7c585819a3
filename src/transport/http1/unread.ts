const none = Buffer.alloc(0)

/** Bytes that wait for the rest of their head or line. The room doubles: a head that comes byte by byte is copied twice. */
export class Unread {
  private room: Buffer = none
  private waiting: Buffer = none

  get empty(): boolean {
    return this.waiting.length === 0
  }

  /** What waits, with `bytes` behind it. */
  with(bytes: Buffer): Buffer {
    const { waiting } = this
    if (waiting.length === 0) return bytes
    const length = waiting.length + bytes.length
    if (length > this.room.length) {
      this.room = Buffer.allocUnsafeSlow(length * 2)
      waiting.copy(this.room)
    }
    bytes.copy(this.room, waiting.length)
    this.waiting = this.room.subarray(0, length)
    return this.waiting
  }

  /** Of `input`, which `with` returned, all from `at` on waits. */
  keep(input: Buffer, at: number): void {
    if (at === 0 && input === this.waiting) return
    // The room is not written to again: what was read of it may still be with somebody.
    this.waiting = at === input.length ? none : input.subarray(at)
    this.room = none
  }

  clear(): void {
    this.keep(none, 0)
  }
}
