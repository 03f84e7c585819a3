import { type ChatRequest, words } from './answer.ts'

/** A simulated prompt cache: what a real server's prefix cache does to the time to first token. */
export interface KvCacheOptions {
  readonly msPerPromptToken: number
  readonly cachedMsPerToken: number
  /** Conversations remembered; the least recently used one is forgotten first. */
  readonly capacityPrompts: number
}

export interface KvCache {
  /** The time to first token of this request in ms; afterwards its whole prompt is cached. */
  prefillMs(request: ChatRequest): number
  readonly promptTokens: number
  readonly cachedTokens: number
}

export function createKvCache(options: KvCacheOptions): KvCache {
  /** Keys are hashes of a prompt's leading messages; the order of insertion is the order of use. */
  const seen = new Map<number | bigint, readonly (number | bigint)[]>()
  let promptTokens = 0
  let cachedTokens = 0
  return {
    get promptTokens() {
      return promptTokens
    },
    get cachedTokens() {
      return cachedTokens
    },
    prefillMs(request) {
      const prefixes = prefixHashes(request)
      const known = new Set([...seen.values()].flat())
      let hit = 0
      let total = 0
      for (const [at, prefix] of prefixes.entries()) {
        const tokens = words(request.messages[at]?.text ?? '') + 4
        total += tokens
        if (known.has(prefix)) hit += tokens
      }
      remember(prefixes)
      promptTokens += total
      cachedTokens += hit
      return hit * options.cachedMsPerToken + (total - hit) * options.msPerPromptToken
    },
  }

  function remember(prefixes: readonly (number | bigint)[]): void {
    // A longer prompt of the same conversation takes the place of the shorter one.
    for (const prefix of prefixes) seen.delete(prefix)
    const whole = prefixes.at(-1)
    if (whole !== undefined) seen.set(whole, prefixes)
    for (const oldest of seen.keys()) {
      if (seen.size <= options.capacityPrompts) break
      seen.delete(oldest)
    }
  }
}

function prefixHashes(request: ChatRequest): readonly (number | bigint)[] {
  let so: number | bigint = Bun.hash(request.model)
  return request.messages.map(({ role, text }) => {
    so = Bun.hash(`${so}:${role}:${text}`)
    return so
  })
}
