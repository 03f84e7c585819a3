import type { Database } from '../../db/client.ts'
import { type LogTile, readLogEntries, readTiles, saveTiles } from '../../db/queries/log/log.ts'
import { GrowingTree } from '../../protocol/log/growing-tree.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import {
  foldSubtrees,
  type ReadSubtrees,
  rootAt,
  type Subtree,
  subtreesOf,
  type Tree,
  type TreeHash,
  treeHashBytes,
} from '../../protocol/log/merkle-log.ts'
import { subtreeInTile, type TilePlace, tileOf, tileRoot, tileWidth } from '../../protocol/log/tiles.ts'

const nameOf = ({ level, index }: TilePlace) => `${level}/${index}`

/** A tile that the tree of this size must have and has not. */
class TileMissing extends Error {
  override readonly name = 'TileMissing'
}

/** One statement for the tiles of a whole proof. */
export function readSubtrees(db: Database): ReadSubtrees {
  return async (wanted) => {
    const places = new Map(wanted.map((subtree) => [nameOf(tileOf(subtree)), tileOf(subtree)]))
    const tiles = await readTiles(db, [...places.values()])
    const byName = new Map([...places.keys()].map((name, at) => [name, tiles[at] ?? null]))
    return wanted.map((subtree) => inTile(byName.get(nameOf(tileOf(subtree))) ?? null, subtree))
  }
}

function inTile(tile: Uint8Array | null, subtree: Subtree): TreeHash {
  try {
    if (tile !== null) return subtreeInTile(tile, subtree)
  } catch {
    // Shorter than the tree says.
  }
  throw new TileMissing()
}

/** The last tile of each level of a tree of `size` entries, as far as it is not full. */
function edgeOf(size: number): readonly TilePlace[] {
  const places: TilePlace[] = []
  for (let [level, hashes] = [0, size]; hashes > 0; [level, hashes] = [level + 1, Math.floor(hashes / tileWidth)]) {
    if (hashes % tileWidth > 0) places.push({ level, index: Math.floor(hashes / tileWidth) })
  }
  return places
}

/** The right edge of the tree while it grows: what is not there yet is written, what is full is left alone. */
class GrowingTiles {
  private readonly changed = new Map<string, { readonly place: TilePlace; readonly hashes: TreeHash[] }>()

  constructor(private readonly sizes: number[]) {}

  static async at(tx: Database, size: number): Promise<GrowingTiles> {
    const sizes: number[] = []
    for (let hashes = size; hashes > 0; hashes = Math.floor(hashes / tileWidth)) sizes.push(hashes)
    const tree = new GrowingTiles(sizes)
    const edge = edgeOf(size)
    const tiles = await readTiles(tx, edge)
    for (const [at, place] of edge.entries()) tree.load(place, tiles[at] ?? null)
    return tree
  }

  append(hash: TreeHash, level = 0): void {
    const at = this.sizes[level] ?? 0
    const index = Math.floor(at / tileWidth)
    const tile = this.tile({ level, index })
    tile.push(hash)
    this.sizes[level] = at + 1
    if (tile.length === tileWidth) this.append(tileRoot(Buffer.concat(tile)), level + 1)
  }

  tiles(): readonly LogTile[] {
    return [...this.changed.values()].map(({ place, hashes }) => ({ ...place, hashes: Buffer.concat(hashes) }))
  }

  /** null: of a tile that was full before. */
  hash(subtree: Subtree): TreeHash | null {
    const tile = this.changed.get(nameOf(tileOf(subtree)))
    return tile === undefined ? null : subtreeInTile(Buffer.concat(tile.hashes), subtree)
  }

  private tile(place: TilePlace): TreeHash[] {
    const known = this.changed.get(nameOf(place))
    if (known !== undefined) return known.hashes
    const made = { place, hashes: [] }
    this.changed.set(nameOf(place), made)
    return made.hashes
  }

  private load(place: TilePlace, stored: Uint8Array | null): void {
    const expected = (this.sizes[place.level] ?? 0) % tileWidth
    if (stored === null || stored.length < expected * treeHashBytes) throw new TileMissing()
    const hashes = this.tile(place)
    for (let at = 0; at < expected; at++) hashes.push(stored.subarray(at * treeHashBytes, (at + 1) * treeHashBytes))
  }
}

/** Writes the leaves behind the `size` that are there; resolves with the new root. */
export async function appendLeaves(tx: Database, size: number, leaves: readonly TreeHash[]): Promise<TreeHash> {
  const tree = await GrowingTiles.at(tx, size)
  for (const leaf of leaves) tree.append(leaf)
  await saveTiles(tx, tree.tiles())
  const parts = subtreesOf(0, size + leaves.length)
  const absent = parts.filter((part) => tree.hash(part) === null)
  const read = await readSubtrees(tx)(absent)
  const stored = new Map(absent.map((part, at) => [part, read[at] as TreeHash]))
  return foldSubtrees(parts.map((part) => tree.hash(part) ?? (stored.get(part) as TreeHash)))
}

/** The log's root at this number of entries; empty if tiles are missing. */
export async function rootThen(db: Database, size: number): Promise<TreeHash> {
  try {
    return await rootAt(size, readSubtrees(db))
  } catch (error) {
    if (error instanceof TileMissing) return new Uint8Array()
    throw error
  }
}

const entriesAtOnce = 2_048

/** The tree that the rows of the first `size` entries give, whatever tiles and checkpoints say; smaller where rows are missing. */
export async function treeOfEntries(tx: Database, size: number): Promise<Tree> {
  const tree = GrowingTree.empty()
  let held = 0
  for (let from = 0; from < size; from += entriesAtOnce) {
    const page = await readLogEntries(tx, from, Math.min(size, from + entriesAtOnce))
    if (page.length === 0) break
    for (const { entryIndex, kind, hash } of page) {
      if (entryIndex === held) held++
      tree.add(logLeaf({ kind, hash }))
    }
  }
  return { size: held, root: held === tree.size ? tree.tree().root : new Uint8Array() }
}
