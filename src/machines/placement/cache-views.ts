import type { Prompt } from './blocks.ts'
import { CacheView, type Matches, noMatches } from './cache-view.ts'

/** Models whose caches are known; only those that several routes have need one. */
const modelsMax = 1_000

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

  /** null before the first request for the model. */
  known(modelId: string): CacheView | null {
    return this.views.get(modelId) ?? null
  }

  forget(profileId: string): void {
    for (const view of this.views.values()) view.forget(profileId)
  }
}
