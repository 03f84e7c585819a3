import { Problem } from '../../errors.ts'
import { withLatest, withoutLatest } from '../../protocol/dialects/ollama/model-tags.ts'
import { unloads } from '../../protocol/dialects/ollama/request.ts'
import type { OllamaChatRequest } from '../../protocol/wire/inference/ollama.ts'

/** Below it stands every path of Ollama's interface. */
export const ollamaBase = '/api'

/** What Ollama's operations have in common: they stand on a listener of their own. */
export const ollamaPlace = {
  bases: [ollamaBase],
  envelope: 'ollama',
  streamType: 'application/x-ndjson',
} as const

/** Ollama's clients write `latest` behind every name, and a name without a tag for it, whatever server has the model. */
export const otherTag = (model: string): string | null => withoutLatest(model) ?? withLatest(model)

/** A request for nothing: Ollama would load the model, or with `keep_alive` 0 unload it. */
export function refuseIdle({ keep_alive: keepAlive, svc }: Pick<OllamaChatRequest, 'keep_alive' | 'svc'>): void {
  if (unloads(keepAlive)) throw modelsElsewhere()
  if (svc?.mixture !== undefined) throw new Problem('invalid_request', { param: 'messages', detail: nothingAsked })
}
const nothingAsked = 'A mixture has to be asked something'

export const modelsElsewhere = () => new Problem('models_managed_elsewhere')
