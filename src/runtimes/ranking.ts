/** `probability`: 0–1 as it stands. `logit`: unbounded, through a sigmoid (§12). */
export type ScoreKind = 'probability' | 'logit'

export interface RankingTraits {
  readonly scoreKind: ScoreKind
  /** How many documents one request may have. null if no bound is known. */
  readonly documentsMax: number | null
}

export interface RankingCall {
  /** As the server names it. */
  readonly model: string
  readonly query: string
  readonly documents: readonly string[]
  /** What else its client says to the server, by its names. */
  readonly more: Readonly<Record<string, unknown>>
}

/** How to ask a kind of server for a ranking, and how to read its answer. */
export interface RerankDialect {
  readonly path: string
  body(call: RankingCall): object
  /** The members of its answer as they are; null where it is no ranking. */
  scores(answer: unknown): readonly { readonly index: unknown; readonly score: unknown }[] | null
}
