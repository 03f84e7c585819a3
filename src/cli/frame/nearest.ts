/** More letters than this are another word, not a slip of the fingers. */
const slipsMax = 2

/** The edit distance of two words: letters that were added, left out, changed or swapped with their neighbour. */
function distance(from: string, to: string): number {
  let before: number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let at = 1; at <= from.length; at++) {
    const next = [at]
    for (let other = 1; other <= to.length; other++) {
      const same = from[at - 1] === to[other - 1]
      const swapped = at > 1 && other > 1 && from[at - 1] === to[other - 2] && from[at - 2] === to[other - 1]
      next[other] = Math.min(
        (row[other] ?? 0) + 1,
        (next[other - 1] ?? 0) + 1,
        (row[other - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (before[other - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}

/** The known word that was probably meant; null when none is near. */
export function nearest(word: string, known: readonly string[]): string | null {
  // A long argument is no mistyped command, and comparing it would cost time.
  if (word.length > Math.max(0, ...known.map(({ length }) => length)) + slipsMax) return null
  const [best] = known
    .map((name) => ({ name, away: distance(word, name) }))
    .filter(({ name, away }) => away <= slipsMax && away < name.length)
    .sort((a, b) => a.away - b.away)
  return best?.name ?? null
}
