import { Problem } from '../errors.ts'
import type { RerankRequest } from '../protocol/wire/rerank.ts'
import type { RankingTraits } from '../runtimes/rerank.ts'
import type { RuntimeModel, RuntimeStatus } from '../runtimes/runtime.ts'

/** What the choice needs to know of one of the agent's runtimes. */
export interface RuntimeView {
  readonly runtimeId: string
  /** The last one that was heard; null: it does not answer. */
  readonly status: RuntimeStatus | null
  /** Calls that this agent has there now. */
  readonly inFlight: number
}

export interface RuntimeChoice<R extends RuntimeView> {
  readonly runtime: R
  readonly ranking: RankingTraits
}

const modelOf = ({ status }: RuntimeView, id: string) => status?.models.find((model) => model.id === id) ?? null

const rankingOf = (model: RuntimeModel | null) =>
  model?.modality === 'rerank' && model.ranking !== undefined ? model.ranking : null

const answers = ({ status }: RuntimeView, model: RuntimeModel | null) =>
  status?.state === 'ready' && model?.ready === true

/** Slots by the server's own word, less what has gone there since; a server that says nothing has one. */
function freeSlots({ status, inFlight }: RuntimeView): number {
  const unused = (status?.slotsTotal ?? 1) - inFlight
  return Math.min(status?.slotsFree ?? unused, unused)
}

/**
 * The runtime that ranks for a request (decisions §12): the one it names, else of those that answer and rank with its
 * model the one with most free slots, of equals the first. Throws `runtime_not_found`, `model_not_found`,
 * `modality_not_supported`, `runtime_unavailable`.
 */
export function chooseRuntime<R extends RuntimeView>(
  runtimes: readonly R[],
  { model, runtime_id: runtimeId }: Pick<RerankRequest, 'model' | 'runtime_id'>,
): RuntimeChoice<R> {
  const named = runtimeId === undefined ? runtimes : runtimes.filter((runtime) => runtime.runtimeId === runtimeId)
  if (runtimeId !== undefined && named.length === 0) throw new Problem('runtime_not_found', { param: 'runtime_id' })
  // A runtime that is named and away may well have the model.
  if (runtimeId !== undefined && named[0]?.status?.state !== 'ready') throw new Problem('runtime_unavailable')
  const serving = named.filter((runtime) => modelOf(runtime, model) !== null)
  if (serving.length === 0) throw new Problem('model_not_found', { param: 'model' })
  const ranking = serving.filter((runtime) => rankingOf(modelOf(runtime, model)) !== null)
  if (ranking.length === 0) {
    throw new Problem('modality_not_supported', { param: 'model', detail: 'This model does not rank documents' })
  }
  const able = ranking.filter((runtime) => answers(runtime, modelOf(runtime, model)))
  const best = able.toSorted((a, b) => freeSlots(b) - freeSlots(a))[0]
  const traits = best === undefined ? null : rankingOf(modelOf(best, model))
  if (best === undefined || traits === null) throw new Problem('runtime_unavailable')
  return { runtime: best, ranking: traits }
}
