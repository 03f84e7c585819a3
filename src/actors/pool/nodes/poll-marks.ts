import type { PollResult } from '../../../polling/node-watch.ts'
import type { RuntimeKind } from '../../../protocol/wire/nodes/node.ts'

/** What is known of the polls of one node, of this process and of another one of this computer. */
export class PollMarks {
  /** Stands for the address and the key that polls go to, as a hash. */
  way = ''
  /** `performance.now()` when the newest poll went out that was taken over. */
  private takenMs = Number.NEGATIVE_INFINITY
  /** `performance.now()` when something else was heard of the node: what another process has polled before says nothing more. */
  private movedMs = Number.NEGATIVE_INFINITY
  /** What kind of server another process has found since this one polled last; null: none that answers. */
  private foundKind: RuntimeKind | null | undefined = undefined

  /** Another process has polled it. */
  found(result: PollResult): void {
    this.foundKind = result.kind === 'answered' ? (result.reports[0]?.status.kind ?? null) : null
  }

  /** The kind that another process has found, once; undefined: this process polled last. */
  takeFoundKind(): RuntimeKind | null | undefined {
    const kind = this.foundKind
    this.foundKind = undefined
    return kind
  }

  /** False: something newer is known than this poll. `isLate`: another process polled. */
  takes(askedMs: number, isLate: boolean): boolean {
    if (askedMs < this.takenMs || (isLate && askedMs < this.movedMs)) return false
    this.takenMs = askedMs
    return true
  }

  /** Something else than a poll has told of the node, such as its tunnel. */
  moved(): void {
    this.movedMs = performance.now()
  }
}
