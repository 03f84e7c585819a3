import { Problem } from '../../errors.ts'
import { unloads } from '../../protocol/dialects/ollama/request.ts'
import type { OllamaChatRequest } from '../../protocol/wire/inference/ollama.ts'

/** Below it stands every path of Ollama's interface. */
export const ollamaBase = '/api'
const latest = ':latest'

/** What Ollama's operations have in common: they stand on a listener of their own. */
export const ollamaPlace = {
  bases: [ollamaBase],
  envelope: 'ollama',
  streamType: 'application/x-ndjson',
  /** A name without a tag means the tag `latest`, for whoever has the model under the other name. */
  otherName: (model: string): string =>
    model.endsWith(latest) ? model.slice(0, -latest.length) : model.includes(':') ? model : model + latest,
} as const

/** A request for nothing: Ollama would load the model, or with `keep_alive` 0 unload it. */
export function refuseIdle({ keep_alive: keepAlive, svc }: Pick<OllamaChatRequest, 'keep_alive' | 'svc'>): void {
  if (unloads(keepAlive)) throw modelsElsewhere()
  if (svc?.mixture !== undefined) throw new Problem('invalid_request', { param: 'messages', detail: nothingAsked })
}
const nothingAsked = 'A mixture has to be asked something'

export const modelsElsewhere = () => new Problem('models_managed_elsewhere')
