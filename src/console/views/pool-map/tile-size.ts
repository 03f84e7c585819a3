/** Sizes, CSS px. */
export interface TileSize {
  readonly width: number
  readonly height: number
  /** There is room for a name and its models. */
  readonly words: boolean
}

/** Between two tiles, and between two groups, px: as pool-map.css has them. */
export const tileGapPx = 2
const groupGapPx = 12
/** A heading with what lies below it, px. */
export const groupHeadPx = 24
/** A group with few nodes is as wide as its heading, px. */
export const groupLeastPx = 112

const card: TileSize = { width: 176, height: 68, words: true }
/** A finger wants that much; a pointer does with less. */
const fingerPx = 24
const squares = [48, 40, 32, 28, fingerPx, 21, 18, 16, 14, 12]
const sizes: readonly TileSize[] = [card, ...squares.map((px) => ({ width: px, height: px, words: false }))]
/** Below this a screen is taken for one that is touched, px. */
const touchedPx = 720

/** So many tiles of a group stand beside each other. */
export const columnsOf = (nodes: number, widthPx: number, { width }: TileSize): number =>
  Math.max(1, Math.min(nodes, Math.floor((widthPx + tileGapPx) / (width + tileGapPx))))

/** The total height of groups with these numbers of nodes, px. Groups that fit beside each other share a line. */
export function heightOf(groups: readonly number[], widthPx: number, size: TileSize): number {
  let [height, line, left] = [0, 0, 0]
  for (const nodes of groups) {
    const columns = columnsOf(nodes, widthPx, size)
    const own = groupHeadPx + Math.ceil(nodes / columns) * (size.height + tileGapPx)
    const wide = Math.min(widthPx, Math.max(groupLeastPx, columns * (size.width + tileGapPx) - tileGapPx))
    if (line > 0 && wide > left) {
      height += line + groupGapPx
      ;[line, left] = [0, 0]
    }
    left = (line === 0 ? widthPx : left) - wide - groupGapPx
    line = Math.max(line, own)
  }
  return height + line
}

/** The largest tile with which all groups fit; where none does, the smallest, and the page scrolls down. */
export function tileSizeOf(groups: readonly number[], widthPx: number, heightPx: number): TileSize {
  const fit = sizes.filter(({ width }) => width <= widthPx && (width >= fingerPx || widthPx >= touchedPx))
  return fit.find((size) => heightOf(groups, widthPx, size) <= heightPx) ?? fit.at(-1) ?? card
}
