/** What of a demand the plan looks at. */
export interface PlannedDemand {
  /** Calls per second that are expected. */
  readonly perS: number
  /** Of these, as the same hour of past days had them; null: nothing is kept of those. */
  readonly pastPerS: number | null
  /** Of the last hour. */
  readonly calls: number
  readonly waited: number
  readonly waitMs: number
  readonly turnedAway: number
}

/** A model, as the nodes of one owner have it. */
export interface PlanModel {
  readonly modelId: string
  readonly demand: PlannedDemand
  /** Its servers outside the plan, whose memory is always taken. */
  readonly fixed: number
  /** Of a call. */
  readonly durationMs: number
  /** Calls that one server of it answers at once; null: unknown. */
  readonly slots: number | null
}

/** A memory into which models are loaded: a computer with an agent, or a server that holds several models. */
export interface PlanHost {
  readonly nodeId: string
  readonly name: string
  /** By device; null: not reported. */
  readonly budgetsMb: Readonly<Record<string, number>> | null
  /** The most models that were seen there at once, where no budget is told. */
  readonly modelsMax: number
}

/** A model that a host can have. */
export interface PlanPlace {
  /** Places in the lists of models and hosts. */
  readonly model: number
  readonly host: number
  /** The node's own name of the model. */
  readonly upstreamModelId: string
  readonly memoryMb: Readonly<Record<string, number>>
  /** Of one group only one may be in memory; null: it is in none. */
  readonly group: string | null
  /** Its owner wants it in memory always. */
  readonly pinned: boolean
  readonly holds: 'away' | 'loading' | 'loaded'
  readonly loadMs: number
  /** Unix ms of its last call; 0: none is known. */
  readonly lastUsedMs: number
}

export interface PlanProblem {
  readonly models: readonly PlanModel[]
  readonly hosts: readonly PlanHost[]
  readonly places: readonly PlanPlace[]
}

/** A move must pay for its loads within this time, s. */
export const horizonS = 600
/** A server that is busier than this keeps its callers waiting. */
const loadShareMax = 0.7

/** Calls under way at a time. */
const offered = ({ demand, durationMs }: PlanModel) => (demand.perS * durationMs) / 1_000

/** How many servers of the model its demand asks for. */
export function wantedReplicas(model: PlanModel): number {
  if (model.demand.perS === 0) return 0
  if (model.slots === null) return 1
  return Math.max(1, Math.ceil(offered(model) / (model.slots * loadShareMax)))
}

/**
 * What callers of a model are expected to wait within the horizon where `copies` of it are in memory, ms: without one for a
 * load of `loadMs`; for a slot, the share of them that the copies cannot take.
 */
export function waitMsOf(model: PlanModel, copies: number, loadMs: number): number {
  const calls = model.demand.perS * horizonS
  if (calls === 0) return 0
  if (copies === 0) return calls * (loadMs + (model.slots === null ? 0 : model.durationMs))
  if (model.slots === null) return 0
  const left = 1 - (copies * model.slots * loadShareMax) / offered(model)
  return left <= 0 ? 0 : calls * left * model.durationMs
}
