import type { Problem } from '../errors.ts'
import { type Grant, type Keeper, type MemoryBudget, uncountedBytesMax } from './budget.ts'

/** A grant that exceeds the kept bytes by more than this is reduced, bytes. */
const looseBytesMax = 1024 * 1024

/** A keeper that rarely keeps much: it has no grant until it does. */
export abstract class CountedKeeper implements Keeper {
  private grant: Grant | null = null
  /** Bytes that may be kept before the account is asked again. */
  private room = uncountedBytesMax
  private refused = false

  constructor(
    private readonly memory: MemoryBudget,
    private readonly keeperId: string,
  ) {}

  /** Counts the bytes kept now. False: memory does not suffice, and the keeper has been told to end. */
  keeps(bytes: number): boolean {
    return (bytes <= this.room && bytes >= this.room - looseBytesMax) || this.holds(bytes)
  }

  private holds(bytes: number): boolean {
    if (this.refused) return false
    this.grant ??= this.memory.open(this.keeperId, this)
    if (!this.grant.hold(bytes)) {
      this.outOfMemory()
      return false
    }
    this.room = Math.max(uncountedBytesMax, this.grant.bytes)
    return true
  }

  outOfMemory(): void {
    this.refused = true
    this.forgetGrant()
    this.endForMemory(this.memory.refusal())
  }

  /** It must end, and `refusal` says why. */
  protected abstract endForMemory(refusal: Problem): void

  /** The counted bytes. */
  get keptBytes(): number {
    return this.grant?.bytes ?? 0
  }

  /** All of it is there: it is not ended any more, because what ends it is done. */
  arrived(): void {
    if (this.grant !== null) this.grant.endable = false
  }

  /** It keeps nothing any more. */
  dropKept(): void {
    this.forgetGrant()?.close()
  }

  /**
   * The text is complete and can no longer be ended: `bytes` of it count until the caller closes the grant. null: too
   * little to count.
   */
  handOver(bytes: number): Grant | null {
    const grant = this.forgetGrant()
    if (bytes <= uncountedBytesMax) {
      grant?.close()
      return null
    }
    const kept = grant ?? this.memory.open(this.keeperId, null)
    kept.settle(bytes)
    return kept
  }

  private forgetGrant(): Grant | null {
    const { grant } = this
    this.grant = null
    this.room = uncountedBytesMax
    return grant
  }
}
