/** The number of letters to change, add or drop to make one word of the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let i = 1; i <= one.length; i++) {
    const next = [i]
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same))
    }
    row = next
  }
  return row[other.length] ?? 0
}

/** The known word that was probably meant; null if none can be reached with at most `changesMax` changed letters. */
export function nearest(word: string, known: readonly string[], changesMax: number): string | null {
  const [best] = known
    // The check of the lengths keeps a very long word from costing time.
    .filter((name) => Math.abs(name.length - word.length) <= changesMax)
    .map((name) => ({ name, changes: distance(word, name) }))
    .sort((one, other) => one.changes - other.changes)
  return best !== undefined && best.changes <= changesMax ? best.name : null
}
