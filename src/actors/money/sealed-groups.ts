/** Lines with `first` ≤ number ≤ `last`. */
export interface LineRange {
  readonly first: number
  readonly last: number
}

/**
 * Into which groups lines were cut when they were first sent. The answer to a statement may be lost when its groups are in the database: what is sent
 * again must be the same groups, which the database knows by their first line.
 */
export class SealedGroups {
  /** The last lines of groups, ascending. */
  private ends: number[] = []

  constructor(private readonly linesMax: number) {}

  /** The groups of these lines, in their order: as they were sent before, and behind those new ones. */
  within(first: number, last: number): readonly LineRange[] {
    const ends = this.ends.filter((end) => end >= first && end <= last)
    for (let sealed = ends.at(-1) ?? first - 1; sealed < last; ) {
      sealed = Math.min(last, sealed + this.linesMax)
      ends.push(sealed)
    }
    this.ends = [...new Set([...this.ends, ...ends])].sort((a, b) => a - b)
    return ends.map((end, at) => ({ first: (ends[at - 1] ?? first - 1) + 1, last: end }))
  }

  /** The lines up to this one are written, or never will be. */
  leave(last: number): void {
    this.ends = this.ends.filter((end) => end > last)
  }
}
