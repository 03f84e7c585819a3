import { loadMsOf } from '../../../machines/placement/loads.ts'
import type { Profile } from './routing-table.ts'

/** What the plan of the memory reads of a runtime. */
export interface RuntimeMemory {
  /** By device, MB; null: not reported. */
  readonly budgetsMb: Readonly<Record<string, number>> | null
  /** The most of its models that were seen in memory at once. */
  readonly loadedMax: number
}

/** And of a model there. */
export interface ModelPlacing {
  /** The agent of its node runs its server. */
  readonly served: boolean
  /** It is another name of this model of the same server, with requests of its own, or an adapter over it; null: neither. */
  readonly anotherNameOf: string | null
  /** By device, MB; null: not reported. */
  readonly needsMb: Readonly<Record<string, number>> | null
  readonly group: string | null
  readonly pinned: boolean
  readonly loadMs: number
  /** Moving mean of a call; null: none was measured. */
  readonly durationMs: number | null
  /** Calls at once, as told or learnt; null: neither. */
  readonly slots: number | null
  /** When the last call was placed there, Unix ms; 0: never. */
  readonly lastUsedMs: number
}

/** The device of a computer whose file names none. */
const mainMemory = 'memory'

/** `first`: the model that its server is started for. */
export function placingOf(
  { upstreamModelId, model, load }: Profile,
  slotsTotal: number | null,
  first: string | undefined,
): ModelPlacing {
  const { reading, durationEwmaMs } = load
  const served = model?.serverState !== undefined
  const total = model?.memoryMb === undefined ? null : { [mainMemory]: model.memoryMb }
  return {
    served,
    anotherNameOf: model?.adapts ?? (served && first !== undefined && first !== upstreamModelId ? first : null),
    needsMb: model?.deviceMb ?? total,
    group: model?.group ?? null,
    pinned: model?.pinned === true,
    loadMs: loadMsOf(reading, null),
    durationMs: durationEwmaMs,
    slots: slotsTotal ?? reading.concurrency.limit,
    lastUsedMs: reading.placedAtMs,
  }
}
