/**
 * The number of letters to change, add or drop to make one word of the other; any number above
 * `most` where it is more than that. Clients may send wrong names all day, so the work ends as soon as that is known.
 */
function distance(one: string, other: string, most: number): number {
  let row = Uint16Array.from({ length: other.length + 1 }, (_, at) => at)
  let next = new Uint16Array(row.length)
  for (let i = 1; i <= one.length; i++) {
    let least = i
    next[0] = i
    for (let j = 1; j <= other.length; j++) {
      const same = one.charCodeAt(i - 1) === other.charCodeAt(j - 1) ? 0 : 1
      const changes = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same)
      next[j] = changes
      if (changes < least) least = changes
    }
    if (least > most) return least
    const done = row
    row = next
    next = done
  }
  return row[other.length] ?? 0
}

/** The known word that was probably meant; null if none can be reached with at most `changesMax` changed letters. */
export function nearest(word: string, known: readonly string[], changesMax: number): string | null {
  const [best] = known
    // The check of the lengths keeps a very long word from costing time.
    .filter((name) => Math.abs(name.length - word.length) <= changesMax)
    .map((name) => ({ name, changes: distance(word, name, changesMax) }))
    .sort((one, other) => one.changes - other.changes)
  return best !== undefined && best.changes <= changesMax ? best.name : null
}
