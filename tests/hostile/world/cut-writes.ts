/** Bytes in pieces, as a client writes them: cut at these places, and only so much of them. null: all. */
export function cutWrites(
  bytes: Buffer,
  keepPermille: number | null,
  atPermille: readonly number[],
): readonly Buffer[] {
  const kept = keepPermille === null ? bytes : bytes.subarray(0, (bytes.length * keepPermille) / 1_000)
  const places = atPermille.map((at) => Math.floor((kept.length * at) / 1_000))
  const ends = [...new Set([...places.sort((a, b) => a - b), kept.length])]
  return ends.map((end, at) => kept.subarray(ends[at - 1] ?? 0, end)).filter(({ length }) => length > 0)
}
