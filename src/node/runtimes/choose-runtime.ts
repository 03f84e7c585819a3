import { Problem } from '../../errors.ts'
import { withLatest } from '../../protocol/dialects/ollama/model-tags.ts'
import { noSuchModel } from '../../protocol/validation/missing-model.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { RuntimeModel } from '../../runtimes/runtime.ts'
import type { LocalRuntime } from './local-runtime.ts'

export interface Wanted {
  readonly model: string
  readonly modality: Modality
  /** The one runtime to use; null: whichever has most room. */
  readonly runtimeId: string | null
}

/**
 * The runtime for a call. Throws `runtime_not_found`, `model_not_found`, `modality_not_supported` and
 * `runtime_unavailable`.
 */
export function chooseRuntime(runtimes: readonly LocalRuntime[], wanted: Wanted): LocalRuntime {
  const named = runtimes.filter(({ runtimeId }) => wanted.runtimeId === null || runtimeId === wanted.runtimeId)
  if (named.length === 0) throw new Problem('runtime_not_found')
  // A runtime that is named and away may well have the model.
  if (wanted.runtimeId !== null && named[0]?.state !== 'ready') throw new Problem('runtime_unavailable')
  const having = named.filter((runtime) => modelOf(runtime, wanted.model) !== undefined)
  if (having.length === 0) {
    const known = named.flatMap(({ models }) => models.map(({ id }) => id))
    throw new Problem('model_not_found', { param: 'model', detail: noSuchModel(wanted.model, known) })
  }
  const able = having.filter((runtime) => (modelOf(runtime, wanted.model)?.modality ?? 'chat') === wanted.modality)
  if (able.length === 0) throw new Problem('modality_not_supported', { param: 'model' })
  const ready = able.filter((runtime) => runtime.state === 'ready' && modelOf(runtime, wanted.model)?.ready === true)
  const [best] = ready.toSorted((a, b) => room(b) - room(a) || a.inFlight - b.inFlight)
  if (best === undefined) throw new Problem('runtime_unavailable')
  return best
}

/**
 * The model that a caller on this computer means by a name without a tag, if no model here has exactly this name (§28).
 */
export function meantHere(runtimes: readonly LocalRuntime[], name: string): string {
  const tagged = withLatest(name)
  if (tagged === null || runtimes.some((runtime) => modelOf(runtime, name) !== undefined)) return name
  const has = runtimes.some((runtime) => runtime.kind === 'ollama' && modelOf(runtime, tagged) !== undefined)
  return has ? tagged : name
}

const modelOf = ({ models }: LocalRuntime, id: string): RuntimeModel | undefined =>
  models.find((model) => model.id === id)

/** A runtime that does not say is taken to have room. */
const room = ({ slotsFree }: LocalRuntime) => slotsFree ?? Number.MAX_SAFE_INTEGER
