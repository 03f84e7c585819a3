import type { RuntimeKind } from '../protocol/wire/node.ts'

/** How a runtime module reaches its server: the node's transport, narrowed. `path` starts with `/`. */
export type ProbeFetch = (path: string) => Promise<{ status: number; text(): Promise<string>; headers: { get(name: string): string | null } }>

export interface RuntimeModel {
  /** As the server names it; checked against `modelIdPattern` by the prober. */
  readonly id: string
  readonly contextLength: number | null
  /** This model can answer now (decisions §8, readiness). */
  readonly ready: boolean
  /** Already in memory; null where the server does not say. */
  readonly loaded: boolean | null
}

/** One answer to "how are you": what `GET /svc/v1/status` says of an agent's runtime, learnt by the server's own signs. */
export interface RuntimeStatus {
  readonly kind: RuntimeKind
  readonly state: 'ready' | 'loading' | 'down'
  readonly models: readonly RuntimeModel[]
  /** null: the server does not say. */
  readonly slotsTotal: number | null
  readonly slotsFree: number | null
  readonly queueDepth: number | null
}

/** One kind of model server: one file in this folder, one line in the registry. */
export interface RuntimeModule {
  readonly kind: RuntimeKind
  /** Ports on loopback where discovery looks for it. */
  readonly ports: readonly number[]
  /** True when the server behind `get` is of this kind. Never throws for an answer of another kind. */
  detect(get: ProbeFetch): Promise<boolean>
  /** Never runs a completion. Throws only what `get` throws (the server did not answer). */
  probe(get: ProbeFetch): Promise<RuntimeStatus>
}
