import {
  type Answer,
  ask,
  type Fields,
  fieldsOf,
  gaugeOf,
  gaugesBy,
  isCacheSize,
  loadIn,
  metricsOf,
  ranksIn,
} from './answers.ts'
import { modalityByName } from './modality.ts'
import { isOwnedBy } from './openai.ts'
import { guessedFrom, sglangDialect, withoutGuess } from './rerank.ts'
import type { ProbeFetch, RuntimeModel, RuntimeModule } from './runtime.ts'
import { sglangTokenizer } from './tokens/sglang-tokens.ts'
import { probeServing } from './vllm.ts'

/** Its signs are 503 while it warms up. */
export const sglang: RuntimeModule = {
  kind: 'sglang',
  ports: [],
  detect: (get) => isOwnedBy('sglang', get),
  async probe(get, before = null) {
    // `/health` makes the model generate a token, which takes a second; `/ready` only reports.
    const [health, info] = await Promise.all([
      newerOf(get, '/ready', '/health'),
      newerOf(get, '/model_info', '/get_model_info'),
    ])
    const status = await probeServing('sglang', 'loading', get, health)
    const models = status.models.flatMap((model) => served(model, fieldsOf(info.body)))
    const metrics = models.length === 0 ? null : await metricsOf(get)
    const ranks = ranksIn(metrics, { ...gauges, label, cacheTokensBy }, before)
    const hasAdapters = models.some(({ adapts }) => adapts !== undefined)
    const shown = models.map((model) => cached(hasAdapters ? asked(model) : model, metrics))
    return { ...status, models: shown, ...loadIn(metrics, gauges), ...ranks }
  },
  rerank: sglangDialect,
  tokenizer: sglangTokenizer,
}

/** With `--enable-metrics`. */
const gauges = { running: 'sglang:num_running_reqs', queued: 'sglang:num_queue_reqs' }

const cacheGauge = 'sglang:max_total_num_tokens'

/** It reads the name of an adapter in a member of its own, which a request for the base must not bring: policies know names of models. */
const asked = (model: RuntimeModel): RuntimeModel => ({
  ...model,
  askedWith: { lora_path: model.adapts === undefined ? undefined : model.id },
})

/** The size of its cache, where it says it. */
function cached(model: RuntimeModel, metrics: string | null): RuntimeModel {
  const tokens = metrics === null ? null : gaugeOf(metrics, cacheGauge)
  return tokens !== null && isCacheSize(tokens) ? { ...model, cacheTokens: tokens } : model
}

const label = 'dp_rank'

function cacheTokensBy(metrics: string): ReadonlyMap<number, number> {
  return new Map([...gaugesBy(metrics, cacheGauge, label)].filter(([, tokens]) => isCacheSize(tokens)))
}

/** What versions without the path `newer` say at `older`. */
async function newerOf(get: ProbeFetch, newer: string, older: string): Promise<Answer> {
  const answer = await ask(get, newer)
  return answer.status === 404 ? ask(get, older) : answer
}

/** The model with its work; none where that is of no use here. */
function served(model: RuntimeModel, info: Fields): readonly RuntimeModel[] {
  // Its diffusion server says that it generates, too: pictures, or else videos, meshes and what robots do.
  if (info.model_type === 'diffusion')
    return info.is_image_gen === true ? [{ ...withoutGuess(model), modality: 'image' }] : []
  if (info.is_generation === true) return [withoutGuess(model)]
  if (info.is_generation !== false) return [model]
  // What does not generate embeds, unless it is called after something else.
  return [guessedFrom(modalityByName(model.id) ?? 'embedding', withoutGuess(model), 'probability')]
}
