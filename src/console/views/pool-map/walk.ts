/** Where a tile is on the page, px. */
interface Laid {
  getBoundingClientRect(): { readonly left: number; readonly top: number }
}

/** Which tile a key leads to from the tile `from`, by its place in `tiles`; null: the key leads nowhere. */
export function besides(tiles: readonly Laid[], from: number, key: string): number | null {
  switch (key) {
    case 'ArrowRight':
      return Math.min(from + 1, tiles.length - 1)
    case 'ArrowLeft':
      return Math.max(from - 1, 0)
    case 'Home':
      return 0
    case 'End':
      return tiles.length - 1
    case 'ArrowDown':
      return inNextRow(tiles, from, 1)
    case 'ArrowUp':
      return inNextRow(tiles, from, -1)
    default:
      return null
  }
}

/** The nearest tile of the next row down or up, whichever group it belongs to; the tile itself at the edge. */
function inNextRow(tiles: readonly Laid[], from: number, way: 1 | -1): number {
  const places = tiles.map((tile) => tile.getBoundingClientRect())
  const here = places[from]
  if (here === undefined) return from
  let [best, bestTop, bestAside] = [from, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (const [at, { left, top }] of places.entries()) {
    const far = way * (top - here.top)
    const aside = Math.abs(left - here.left)
    if (far < 1 || far > bestTop || (far === bestTop && aside >= bestAside)) continue
    ;[best, bestTop, bestAside] = [at, far, aside]
  }
  return best
}
