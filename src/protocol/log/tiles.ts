import { nodeHash, type Subtree, type TreeHash, treeHashBytes } from './merkle-log.ts'

/** Tiles of C2SP `tlog-tiles`: 256 neighbouring hashes of one of the levels 0, 8, 16, … as one file, cacheable for ever. */
const tileHeight = 8
export const tileWidth = 2 ** tileHeight

export interface TilePlace {
  /** 0: of leaf hashes; each next one is 8 levels of the tree higher. */
  readonly level: number
  readonly index: number
}

export interface TileName extends TilePlace {
  /** `entries`: the entries themselves, a bundle for each tile of level 0. */
  readonly kind: 'hashes' | 'entries'
  /** 1 to 255: the first hashes; null: all 256. */
  readonly partial: number | null
}

const digits = 3
const group = 10 ** digits
/** More than 2^48 entries fill. */
const indexGroupsMax = 6
const levelMax = 5

/** `x001/x234/067`. */
function indexPath(index: number): string {
  const last = String(index % group).padStart(digits, '0')
  let path = last
  for (let rest = Math.floor(index / group); rest > 0; rest = Math.floor(rest / group)) {
    path = `x${String(rest % group).padStart(digits, '0')}/${path}`
  }
  return path
}

export function tilePath({ kind, level, index, partial }: TileName): string {
  const first = kind === 'entries' ? 'entries' : String(level)
  return `tile/${first}/${indexPath(index)}${partial === null ? '' : `.p/${partial}`}`
}

const tilePattern = /^tile\/(entries|[0-9]{1,2})\/((?:x[0-9]{3}\/)*[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/

/** null for what `tilePath` would not write. */
export function parseTilePath(path: string): TileName | null {
  const [, first, places, width] = tilePattern.exec(path) ?? []
  if (first === undefined || places === undefined) return null
  const groups = places.split('/')
  if (groups.length > indexGroupsMax) return null
  const index = groups.reduce((value, part) => value * group + Number(part.replace('x', '')), 0)
  const level = first === 'entries' ? 0 : Number(first)
  const name: TileName = {
    kind: first === 'entries' ? 'entries' : 'hashes',
    level,
    index,
    partial: width === undefined ? null : Number(width),
  }
  const known = level <= levelMax && (name.partial ?? 1) < tileWidth && tilePath(name) === path
  return known ? name : null
}

/** The number of hashes that the tile holds in a tree of this size; 0: no such tile. */
export function tileHashes({ level, index }: TilePlace, size: number): number {
  const onLevel = Math.floor(size / tileWidth ** level)
  return Math.max(0, Math.min(tileWidth, onLevel - index * tileWidth))
}

/** The tile in which a subtree's hash is found, or from which it is computed. */
export function tileOf({ level, index }: Subtree): TilePlace {
  const above = level % tileHeight
  return { level: (level - above) / tileHeight, index: Math.floor((index * 2 ** above) / tileWidth) }
}

const hashIn = (tile: Uint8Array, at: number): TreeHash => {
  const hash = tile.subarray(at * treeHashBytes, (at + 1) * treeHashBytes)
  if (hash.length !== treeHashBytes) throw new RangeError('the tile does not reach so far')
  return hash
}

function foldRow(tile: Uint8Array, begin: number, width: number): TreeHash {
  let row = Array.from({ length: width }, (_, at) => hashIn(tile, begin + at))
  while (row.length > 1) {
    row = Array.from({ length: row.length / 2 }, (_, at) =>
      nodeHash(row[2 * at] as TreeHash, row[2 * at + 1] as TreeHash),
    )
  }
  return row[0] as TreeHash
}

/** Throws `RangeError` where the tile does not hold all of it. */
export function subtreeInTile(tile: Uint8Array, { level, index }: Subtree): TreeHash {
  const width = 2 ** (level % tileHeight)
  return foldRow(tile, (index * width) % tileWidth, width)
}

/** Of a full tile: a hash of the tile above. */
export const tileRoot = (tile: Uint8Array): TreeHash => foldRow(tile, 0, tileWidth)

/** Entries of a bundle, each behind its length in two bytes. */
export function entryBundle(entries: readonly Uint8Array[]): Uint8Array {
  const bundle = new Uint8Array(entries.reduce((sum, { length }) => sum + 2 + length, 0))
  let at = 0
  for (const entry of entries) {
    bundle.set([entry.length >> 8, entry.length & 0xff], at)
    bundle.set(entry, at + 2)
    at += 2 + entry.length
  }
  return bundle
}

/** The entries of a bundle; null: malformed, or another number of entries. */
export function parseEntryBundle(bundle: Uint8Array, count: number): readonly Uint8Array[] | null {
  const entries: Uint8Array[] = []
  for (let at = 0; at < bundle.length; ) {
    const [high, low] = [bundle[at], bundle[at + 1]]
    if (high === undefined || low === undefined || entries.length === count) return null
    const end = at + 2 + (high << 8) + low
    if (end > bundle.length) return null
    entries.push(bundle.subarray(at + 2, end))
    at = end
  }
  return entries.length === count ? entries : null
}
