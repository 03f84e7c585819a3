import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import {
  type Answer,
  ask,
  believable,
  countOf,
  type Fields,
  fieldsOf,
  loadIn,
  metricsOf,
  modelListOf,
  textOf,
} from './answers.ts'
import { modalityByCapabilities, modalityByName, modalityByTask } from './modality.ts'
import { isOllamaOfGateway } from './ollama.ts'
import { guessedFrom, jinaDialect, servedAs } from './rerank.ts'
import { idleStatus, type ProbeFetch, type RuntimeModel, type RuntimeModule, type RuntimeStatus } from './runtime.ts'

/** Any server with an OpenAI model list: TGI, MLX, gateways. Every listed model counts as ready. */
export const openai: RuntimeModule = {
  kind: 'openai',
  ports: [],
  detect: async (get) => modelListOf(await ask(get, '/v1/models')) !== null && !(await isOllamaOfGateway(get)),
  async probe(get) {
    const list = await ask(get, '/v1/models')
    const status = statusOf('openai', list)
    return isTgi(list) ? { ...status, ...loadIn(await metricsOf(get), tgiGauges) } : status
  },
  rerank: jinaDialect,
}

/** Text Generation Inference has one model, made at no time and owned by itself. */
function isTgi(list: Answer): boolean {
  const [only, ...others] = modelListOf(list) ?? []
  return only !== undefined && others.length === 0 && only.created === 0 && only.owned_by === only.id
}

const tgiGauges = { running: 'tgi_batch_current_size', queued: 'tgi_queue_size' }

/** The status of a server that says no more than its model list. */
export async function probeModelList(kind: RuntimeKind, get: ProbeFetch): Promise<RuntimeStatus> {
  return statusOf(kind, await ask(get, '/v1/models'))
}

function statusOf(kind: RuntimeKind, answer: Answer): RuntimeStatus {
  const list = modelListOf(answer)
  if (list === null) return idleStatus(kind, answer.status === 503 ? 'loading' : 'down')
  const contexts = new Map(list.map((entry) => [textOf(entry.id), listedModel(entry).contextLength]))
  // An adapter (vLLM, SGLang) that tells no context has that of the model that it adapts.
  const whole = (entry: Fields): RuntimeModel => {
    const model = listedModel(entry)
    const parent = textOf(entry.parent)
    if (parent === null || parent === model.id || !contexts.has(parent)) return model
    return { ...model, contextLength: model.contextLength ?? contexts.get(parent) ?? null, adapts: parent }
  }
  const models = believable(list.map(whole))
  return { ...idleStatus(kind, 'down'), state: 'ready', models }
}

/** True when the server's model list says that it is `owner`'s. */
export async function isOwnedBy(owner: string, get: ProbeFetch): Promise<boolean> {
  return modelListOf(await ask(get, '/v1/models'))?.some((entry) => entry.owned_by === owner) ?? false
}

function listedModel(entry: Fields): RuntimeModel {
  const id = textOf(entry.id) ?? ''
  const model = {
    id,
    // vLLM and SGLang; then what gateways and hosted services call it.
    contextLength: countOf(entry.max_model_len) ?? countOf(entry.context_length) ?? countOf(entry.context_window),
    ready: true,
    loaded: loadedOf(entry),
  }
  const modality = modalityByTask(textOf(entry.task)) ?? modalityByCapabilities(entry.capabilities)
  return modality === null
    ? guessedFrom(modalityByName(id), model, 'probability')
    : servedAs(model, modality, 'probability')
}

/** llama.cpp's router began it, and `transformers serve` says it, too: that one loads the model that a request names. */
function loadedOf(entry: Fields): boolean | null {
  const value = textOf(fieldsOf(entry.status).value)
  return value === 'loaded' || value === 'unloaded' ? value === 'loaded' : null
}
