import type { Packed } from './msgpack.ts'

/** What a server's prefix cache holds, by its events. */
export interface CacheCount {
  /** Tokens of the base model by the empty name, and of each adapter by its own. */
  readonly tokens: ReadonlyMap<string, number>
  /** It has dropped some since it was empty, so that what comes takes the place of what is there. */
  readonly full: boolean
}

/** Blocks that are known of one cache. Beyond them the count would not be true, and none is told. */
export const blocksMax = 524_288
/** So many removals in a row of known blocks show that nothing unknown is left: the oldest blocks go first. */
const removalsBelieved = 64
const blockTokensMax = 65_536
/** Adapters of a base model whose blocks are counted apart. */
const adaptersMax = 256
/** The name of blocks that belong to the base model. */
const base = ''

interface Block {
  readonly tokens: number
  readonly adapter: string
}

/** The fields of one event, by name: servers send them as maps, or as lists in the order of their published classes. */
interface KvEvent {
  readonly type: string
  readonly hashes: readonly Packed[]
  readonly tokens: number
  readonly medium: Packed
  readonly adapter: string
  readonly group: number
}

const isList = (value: Packed | undefined): value is readonly Packed[] => Array.isArray(value)
const isMap = (value: Packed | undefined): value is { readonly [name: string]: Packed } =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)

/** The order of the fields behind the name in vLLM's and SGLang's classes (`kv_events.py` of both). */
const storedFields = [
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'group_idx',
] as const
const removedFields = ['block_hashes', 'medium', 'group_idx'] as const

function fieldsOf(event: Packed): { readonly [name: string]: Packed } | null {
  if (isMap(event)) return event
  if (!isList(event)) return null
  const [type, ...values] = event
  const names: readonly string[] = type === 'BlockStored' ? storedFields : removedFields
  return Object.fromEntries([['type', type ?? null], ...names.map((name, at) => [name, values[at] ?? null])])
}

function eventOf(packed: Packed): KvEvent | null {
  const fields = fieldsOf(packed)
  if (fields === null || typeof fields.type !== 'string') return null
  const {
    type,
    block_hashes: hashes,
    block_size: size,
    medium = null,
    lora_name: name,
    lora_id: id,
    group_idx,
  } = fields
  const adapter = typeof name === 'string' ? name : typeof id === 'number' ? `#${id}` : base
  const tokens = typeof size === 'number' && Number.isInteger(size) && size > 0 && size <= blockTokensMax ? size : 0
  const group = typeof group_idx === 'number' ? group_idx : 0
  return { type, hashes: isList(hashes) ? hashes : [], tokens, medium, adapter, group }
}

/** A number that a Map finds fast. The hashes have 64 bits or 256, and are spread evenly. */
function keyOf(hash: Packed): number | null {
  if (typeof hash === 'number') return hash
  if (typeof hash === 'bigint') return Number(BigInt.asUintN(53, hash))
  if (!(hash instanceof Uint8Array) || hash.length < 8) return null
  const view = new DataView(hash.buffer, hash.byteOffset + hash.length - 8, 8)
  return (view.getUint32(0) & 0x1f_ffff) * 2 ** 32 + view.getUint32(4)
}

/** Of other places, such as a disk, blocks have to be loaded. */
const isInMemory = (medium: Packed) => medium === null || medium === 'GPU'

/** The blocks in the prefix cache of one server, or of one rank of it, as its events tell them. */
export class CachedBlocks {
  private readonly blocks = new Map<number, Block>()
  private readonly tokens = new Map<string, number>()
  private full = false
  /** What was in the cache before the first event is unknown. */
  private complete = false
  private removals = 0

  /** Keys of the blocks, for tests of their equality with a server's. */
  keys(): ReadonlySet<number> {
    return new Set(this.blocks.keys())
  }

  /** null: something unknown is in the cache, too. */
  count(): CacheCount | null {
    return this.complete ? { tokens: this.tokens, full: this.full } : null
  }

  /** The server begins with an empty cache. */
  begun(): void {
    this.lost()
    this.complete = true
  }

  /** Events were lost: what is known may be gone, and what is there may be unknown. */
  lost(): void {
    this.blocks.clear()
    this.tokens.clear()
    this.complete = false
    this.full = false
    this.removals = 0
  }

  /** One batch, `[ts, events, …]` or `{ts, events, …}`. What is no event of blocks is passed over. */
  take(batch: Packed): void {
    const events = isMap(batch) ? batch.events : isList(batch) ? batch[1] : null
    if (!isList(events)) return
    for (const packed of events) {
      const event = eventOf(packed)
      if (event !== null) this.one(event)
    }
  }

  private one(event: KvEvent): void {
    const { type, hashes, group, medium } = event
    if (type === 'AllBlocksCleared') return this.begun()
    // A hybrid model keeps the same prompt in several groups: it is counted once.
    if (group !== 0 || !isInMemory(medium)) return
    if (type === 'BlockStored') for (const hash of hashes) this.stored(keyOf(hash), event)
    else if (type === 'BlockRemoved') for (const hash of hashes) this.removed(keyOf(hash))
  }

  private stored(key: number | null, { tokens, adapter }: KvEvent): void {
    if (key === null || tokens === 0 || this.blocks.has(key)) return
    if (this.blocks.size >= blocksMax) return this.lost()
    const known = this.tokens.has(adapter) || this.tokens.size < adaptersMax ? adapter : base
    this.blocks.set(key, { tokens, adapter: known })
    this.tokens.set(known, (this.tokens.get(known) ?? 0) + tokens)
  }

  private removed(key: number | null): void {
    this.full = true
    const block = key === null ? undefined : this.blocks.get(key)
    if (key === null || block === undefined) {
      this.removals = 0
      return
    }
    this.blocks.delete(key)
    this.tokens.set(block.adapter, (this.tokens.get(block.adapter) ?? 0) - block.tokens)
    this.removals++
    if (this.removals >= removalsBelieved) this.complete = true
  }
}
