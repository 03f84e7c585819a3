import type { Prompt } from './blocks.ts'
import { CacheView, type Matches, noMatches } from './cache-view.ts'

/** Models whose caches are known; only those that several routes have need one. */
const modelsMax = 1_000

/** Where a route has its prompts. */
interface Cached {
  readonly cache: { readonly modelId: string; readonly profileId: string }
}

/** The estimated contents of the caches of all pooled models: one view each. */
export class CacheViews {
  private readonly views = new Map<string, CacheView>()

  of(modelId: string): CacheView {
    const known = this.views.get(modelId)
    if (known !== undefined) return known
    const [oldest] = this.views.keys()
    if (this.views.size >= modelsMax && oldest !== undefined) this.views.delete(oldest)
    const view = new CacheView()
    this.views.set(modelId, view)
    return view
  }

  /** The part of a prompt in each cache. null if the prompt was not hashed. */
  match(modelId: string, prompt: Prompt | null): Matches {
    return prompt === null ? noMatches : this.of(modelId).match(prompt)
  }

  /**
   * The part of a prompt in the cache of each of these routes of one model. Mostly they are in one view, but an adapter may have
   * another base at each server. Where its session was last in several of those, the first of them is named.
   */
  matchAt(routes: readonly Cached[], prompt: Prompt | null): Matches {
    if (prompt === null) return noMatches
    return this.matchAmong(routes, prompt)
  }

  private matchAmong(routes: readonly Cached[], prompt: Prompt): Matches {
    const [first] = routes
    if (first === undefined) return noMatches
    const { modelId } = first.cache
    if (routes.every(({ cache }) => cache.modelId === modelId)) return this.match(modelId, prompt)
    const byModel = new Map<string, Matches>()
    const byProfile = new Map<string, Matches>()
    for (const { cache } of routes) {
      const matches = byModel.get(cache.modelId) ?? this.known(cache.modelId)?.match(prompt) ?? noMatches
      byModel.set(cache.modelId, matches)
      byProfile.set(cache.profileId, matches)
    }
    const held = [...byProfile].find(([profileId, { holder }]) => holder === profileId)
    return { unitsOf: (profileId) => byProfile.get(profileId)?.unitsOf(profileId) ?? 0, holder: held?.[0] ?? null }
  }

  /** null before the first request for the model. */
  known(modelId: string): CacheView | null {
    return this.views.get(modelId) ?? null
  }

  forget(profileId: string): void {
    for (const view of this.views.values()) view.forget(profileId)
  }
}
