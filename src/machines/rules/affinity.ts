/** Seeded hash of a text; the seed chains the messages of a conversation. */
export type PrefixHash = (text: string, seed: bigint) => bigint

/** Later messages do not change which node has the beginning in its cache. */
export const messagesHashedMax = 32
/**
 * For a longer text only its length and both ends are hashed, because an image must not cost its size on the request
 * path.
 */
const textHashedMax = 4_096

function sample(text: string): string {
  if (text.length <= textHashedMax) return text
  return `${text.length}\0${text.slice(0, textHashedMax / 2)}\0${text.slice(-textHashedMax / 2)}`
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

function contentText(content: unknown): string {
  if (typeof content === 'string') return sample(content)
  if (!Array.isArray(content)) return ''
  return content.map((part) => (isRecord(part) ? partText(part) : '')).join('\0')
}

function partText(part: Readonly<Record<string, unknown>>): string {
  if (typeof part.text === 'string') return sample(part.text)
  const image = part.image_url
  const url = isRecord(image) ? image.url : image
  return typeof url === 'string' ? sample(url) : String(part.type)
}

/**
 * One key per prefix of the conversation, longest first. The customer is part of every key, so nobody can learn from
 * a placement what another customer's prompts begin with.
 */
export function keysOf(
  customerId: string,
  modelId: string,
  messages: readonly unknown[],
  hash: PrefixHash,
): readonly bigint[] {
  const keys: bigint[] = []
  let seed = hash(`${customerId}\0${modelId}`, 0n)
  const count = Math.min(messages.length, messagesHashedMax)
  for (let i = 0; i < count; i++) {
    const message = messages[i]
    seed = isRecord(message) ? hash(`${String(message.role)}\0${contentText(message.content)}`, seed) : hash('', seed)
    keys.push(seed)
  }
  return keys.reverse()
}

/** Remembers which node served a prefix last, and forgets prefixes that were not used for long. */
export interface PrefixMap {
  /** The node of the longest known prefix; `keys` longest first. */
  lookup(keys: readonly bigint[]): string | null
  /** Call when a call was placed. Keeps the whole conversation and its first message (the shared system prompt). */
  record(keys: readonly bigint[], nodeId: string): void
  readonly size: number
}

export const prefixEntriesMax = 20_000

/**
 * Two generations instead of a list by last use: when the young one is full it becomes the old one, and what was not
 * used since is forgotten. A Map emptied from its front one by one gets slow (seen: 27 µs an entry).
 */
export function createPrefixMap(entriesMax = prefixEntriesMax): PrefixMap {
  const generationMax = Math.max(1, Math.floor(entriesMax / 2))
  let young = new Map<bigint, string>()
  let old = new Map<bigint, string>()
  const set = (key: bigint, nodeId: string) => {
    young.set(key, nodeId)
    if (young.size < generationMax) return
    old = young
    young = new Map()
  }
  const get = (key: bigint): string | undefined => {
    const known = young.get(key)
    if (known !== undefined) return known
    const aged = old.get(key)
    if (aged !== undefined) set(key, aged)
    return aged
  }
  return {
    lookup: (keys) => {
      for (const key of keys) {
        const nodeId = get(key)
        if (nodeId !== undefined) return nodeId
      }
      return null
    },
    record: (keys, nodeId) => {
      const longest = keys[0]
      const shortest = keys.at(-1)
      if (shortest !== undefined && shortest !== longest) set(shortest, nodeId)
      if (longest !== undefined) set(longest, nodeId)
    },
    get size() {
      return young.size + old.size
    },
  }
}
