import type { ChatRequest } from '../protocol/wire/inference/chat.ts'
import { labelOf } from '../protocol/wire/nodes/model-facts.ts'
import {
  type Answer,
  ask,
  believable,
  cacheTokensOf,
  countOf,
  type Fields,
  fieldsOf,
  fileOf,
  gaugeOf,
  listOf,
  modelListOf,
  textOf,
} from './answers.ts'
import { modalityByName } from './modality.ts'
import { llamaCppLoads } from './model-loads.ts'
import { guessedFrom, jinaDialect, ranks, usualRanking } from './rerank.ts'
import { idleStatus, type ProbeFetch, type RuntimeModel, type RuntimeModule, type RuntimeStatus } from './runtime.ts'
import { llamaTokenizer } from './tokens/llama-cpp-tokens.ts'

const kind = 'llama.cpp'

export const llamaCpp: RuntimeModule = {
  kind,
  // The default of earlier versions, and of those since the autumn of 2026.
  ports: [8080, 9931],
  async detect(get) {
    const list = await ask(get, '/v1/models')
    // All it answers while it loads is this error, on every path.
    if (list.status === 503) return list.server === kind || isLoading(list)
    return modelListOf(list)?.some((entry) => entry.owned_by === 'llamacpp' || isRouted(entry)) ?? false
  },
  async probe(get, before = null) {
    const health = await ask(get, '/health')
    if (health.status !== 200) return idleStatus(kind, health.status === 503 ? 'loading' : 'down')
    const [listed, props] = await Promise.all([ask(get, '/v1/models'), ask(get, '/props')])
    const list = modelListOf(listed)
    if (list === null) return idleStatus(kind, listed.status === 503 ? 'loading' : 'down')
    return list.some(isRouted) ? routerStatus(list) : singleStatus(get, list, fieldsOf(props.body), before)
  },
  /** Only a stream is written while the model works; for a whole answer it looks at its client once a second of silence. */
  freesLate: (request) => !offersTools(request),
  // Builds before February 2026: https://github.com/ggml-org/llama.cpp/pull/19831
  boundByMaxTokens: true,
  rerank: jinaDialect,
  tokenizer: llamaTokenizer,
  loads: llamaCppLoads,
}

/**
 * The calls in a stream are the difference between one reading of unfinished text and the next: where the two do not fit,
 * the server ends the stream with an error ("Invalid diff"), although the finished text would have been read well. Builds
 * before May 2025 refuse tools in a stream, later ones tools and `logprobs` in one.
 */
function offersTools(request: ChatRequest): boolean {
  const { tools } = request as { readonly tools?: unknown }
  return Array.isArray(tools) && tools.length > 0
}

/**
 * A server started with `--reranking` or `--embeddings` does nothing else, but no GET reveals this: only a router shows
 * the flags. Elsewhere the model's name usually tells, because such models cannot chat, and is taken for a guess.
 */
function workOf(model: RuntimeModel, isRanker: boolean, embeds: boolean): RuntimeModel {
  const ranking = usualRanking(kind, model.id)
  if (isRanker) return ranks(model, ranking)
  if (embeds) return { ...model, modality: 'embedding' }
  const named = modalityByName(model.id)
  return guessedFrom(named === 'rerank' || named === 'embedding' ? named : null, model, ranking.scoreKind)
}

/** Of the weights; a router says it of no model that is not in memory. */
const describedBy = ({ size, ftype }: Fields) =>
  fileOf({ size_bytes: countOf(size), quantization_level: labelOf(ftype) })

function isLoading(answer: Answer): boolean {
  const error = fieldsOf(fieldsOf(answer.body).error)
  return error.type === 'unavailable_error' && error.message === 'Loading model'
}

/** One model, or one with aliases, in this process. */
async function singleStatus(
  get: ProbeFetch,
  list: readonly Fields[],
  props: Fields,
  before: RuntimeStatus | null,
): Promise<RuntimeStatus> {
  const sleeping = props.is_sleeping === true
  const slotsTotal = countOf(props.total_slots)
  const contextLength = countOf(fieldsOf(props.default_generation_settings).n_ctx)
  const asleep = { load: { slotsFree: slotsTotal, queueDepth: 0 }, startMark: before?.startMark ?? '' }
  const { load, startMark } = sleeping ? asleep : await readLoad(get, slotsTotal, props)
  const models = list.filter(writesText).map((entry): RuntimeModel => {
    const model = {
      id: modelName(textOf(entry.id) ?? ''),
      contextLength: contextLength ?? countOf(fieldsOf(entry.meta).n_ctx) ?? countOf(fieldsOf(entry.meta).n_ctx_train),
      // A sleeping server loads its model again when a request comes.
      ready: true,
      loaded: !sleeping,
      cacheTokens: cacheTokensOf(slotsTotal, contextLength),
      ...describedBy(fieldsOf(entry.meta)),
    }
    return workOf(model, false, false)
  })
  const known = before?.startMark === startMark ? before : null
  const adapters = await adaptersOf(get, models[0], known)
  const bases = adapters.length === 0 ? models : models.map((model) => ({ ...model, askedWith: noAdapter }))
  return { kind, state: 'ready', models: believable([...bases, ...adapters]), slotsTotal, startMark, ...load }
}

/** An adapter is asked for by its own name, by those who may use it. */
const noAdapter = { lora: undefined }

/**
 * LoRA adapters are given at its start (`--lora`), so they are asked for once after each, while it is awake: it asks its own work loop. Each
 * is a model of its own here, and by its number and scale in a request. A request that names none gets what the server was
 * started with.
 */
async function adaptersOf(
  get: ProbeFetch,
  base: RuntimeModel | undefined,
  before: RuntimeStatus | null,
): Promise<readonly RuntimeModel[]> {
  if (base === undefined) return []
  const shared = ({ id, askedWith }: RuntimeModel): RuntimeModel => {
    return { ...base, id, adapts: base.id, ...(askedWith === undefined ? {} : { askedWith }) }
  }
  const known = before?.models.some(({ loaded }) => loaded === true) === true
  if (known || base.loaded !== true)
    return before?.models.filter(({ adapts }) => adapts !== undefined).map(shared) ?? []
  const { status, body } = await ask(get, '/lora-adapters')
  const adapters = status === 200 ? (listOf(body) ?? []) : []
  return adapters.slice(0, adaptersMax).flatMap((entry): readonly RuntimeModel[] => {
    const { id, scale } = entry
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0) return []
    const strength = typeof scale === 'number' && Number.isFinite(scale) && scale !== 0 ? scale : 1
    return [
      shared({ ...base, id: modelName(textOf(entry.path) ?? ''), askedWith: { lora: [{ id, scale: strength }] } }),
    ]
  })
}

/** Of one server. */
const adaptersMax = 64

type Load = Pick<RuntimeStatus, 'slotsFree' | 'queueDepth'>

/**
 * `/metrics` first (with `--metrics`): it alone says how many wait, and it lets an idle server fall asleep. `/slots` is on
 * by default but counts as work: it wakes a sleeping server, so none is asked, and keeps one awake that would sleep.
 */
async function readLoad(
  get: ProbeFetch,
  slotsTotal: number | null,
  props: Fields,
): Promise<{ readonly load: Load; readonly startMark: string }> {
  const metrics = await get('/metrics')
  const text = await metrics.text()
  const startMark = startMarkOf(metrics.headers.get('process-start-time-unix'), props)
  const processing = metrics.status === 200 ? gaugeOf(text, 'llamacpp:requests_processing') : null
  if (processing !== null && slotsTotal !== null) {
    const slotsFree = Math.max(0, slotsTotal - processing)
    return { load: { slotsFree, queueDepth: gaugeOf(text, 'llamacpp:requests_deferred') }, startMark }
  }
  const slots = await ask(get, '/slots')
  const list = slots.status === 200 ? listOf(slots.body) : null
  const slotsFree = list?.filter((slot) => slot.is_processing === false).length ?? null
  return { load: { slotsFree, queueDepth: null }, startMark }
}

const markedMax = 256
/** A server may say anything here: what is no text and no number is no sign. */
const shownSign = (sign: unknown) =>
  typeof sign === 'string' || typeof sign === 'number' ? String(sign).slice(0, markedMax) : ''

/** With `--metrics` each process has its number (no time, whatever its name says); else other arguments show in the properties. */
function startMarkOf(process: string | null, { model_path, build_info, total_slots, ...props }: Fields): string {
  const { n_ctx } = fieldsOf(props.default_generation_settings)
  const signs = [process, model_path, build_info, total_slots, n_ctx]
  const text = JSON.stringify(signs.map(shownSign))
  // A hash: the path of the weights must not leave the node.
  return Bun.hash(text).toString(36)
}

/**
 * Without `--alias` the id is the path of the weights, which must not leave the node. A server of one model does not look
 * at the name in a request, so the bare file name serves as well.
 */
function modelName(id: string): string {
  const isPath = /^[./~]|\\|\.gguf$/i.test(id)
  return isPath ? (id.split(/[/\\]/).at(-1) ?? '').replace(/\.gguf$/i, '') : id
}

/** Started without a model it is a router: it lists many, each with a status, and loads the one a request names. */
function isRouted(entry: Fields): boolean {
  return (
    textOf(fieldsOf(entry.status).value) !== null && (entry.owned_by === undefined || entry.owned_by === 'llamacpp')
  )
}

function routerStatus(list: readonly Fields[]): RuntimeStatus {
  const models = list.filter(writesText).map((entry): RuntimeModel => {
    const status = fieldsOf(entry.status)
    const value = textOf(status.value) ?? ''
    const model = {
      id: textOf(entry.id) ?? '',
      contextLength: countOf(fieldsOf(entry.meta).n_ctx) ?? countOf(fieldsOf(entry.meta).n_ctx_train),
      ready: ['loaded', 'sleeping', 'unloaded'].includes(value) && status.failed !== true,
      loaded: value === 'loaded',
      ...describedBy(fieldsOf(entry.meta)),
    }
    return workOf(model, startedWith(status, rankingFlags), startedWith(status, embeddingFlags))
  })
  return { ...idleStatus(kind, 'down'), state: 'ready', models: believable(models) }
}

/** The router shows with which arguments it starts a model's process. */
function startedWith(status: Fields, flags: readonly unknown[]): boolean {
  return Array.isArray(status.args) && status.args.some((arg) => flags.includes(arg))
}
const rankingFlags = ['--reranking', '--rerank']
const embeddingFlags = ['--embeddings', '--embedding']

/** A model that only takes decisions answers no chat. */
function writesText(entry: Fields): boolean {
  const outputs = fieldsOf(entry.architecture).output_modalities
  return !Array.isArray(outputs) || outputs.includes('text')
}
