import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import { type Answer, ask, cacheTokensOf, countOf, loadIn, metricsOf, ranksIn, ranksMax } from './answers.ts'
import { vllmDozes, vllmLoads } from './model-loads.ts'
import { isOwnedBy, probeModelList } from './openai.ts'
import { jinaDialect, ranks, withoutGuess } from './rerank.ts'
import { idleStatus, type ProbeFetch, type RuntimeModel, type RuntimeModule, type RuntimeStatus } from './runtime.ts'
import { vllmTokenizer } from './tokens/vllm-tokens.ts'

/** It listens only when its model is loaded; `/health` turns 503 when its engine has died. */
export const vllm: RuntimeModule = {
  kind: 'vllm',
  ports: [8000],
  detect: (get) => isOwnedBy('vllm', get),
  async probe(get, before = null) {
    // A server without sleep mode is asked for it once: it logs each question.
    const mayDoze = before === null || before.models.some(({ dozing }) => dozing !== undefined)
    const dozes = mayDoze ? vllmDozes(get) : null
    const [served, work, dozing] = await Promise.all([probeServing('vllm', 'down', get), workOf(get), dozes])
    if (work === null) return { ...served, models: [] }
    const metrics = work === 'chat' && served.models.length > 0 ? await metricsOf(get) : null
    const cacheTokens = metrics === null ? null : cacheTokensIn(metrics)
    const models = served.models.map((listed): RuntimeModel => {
      const model = dozing === null ? listed : { ...listed, dozing, loaded: !dozing }
      if (work === 'chat') return { ...model, cacheTokens }
      return work === 'rerank' ? ranks(withoutGuess(model), ranking) : { ...withoutGuess(model), modality: work }
    })
    // With `--data-parallel-size`, where this server is asked for all of its engines.
    const engines = ranksIn(metrics, { ...gauges, label: 'engine', cacheTokensBy }, before)
    return { ...served, models, ...loadIn(metrics, gauges), ...engines }
  },
  loads: vllmLoads,
  rerank: jinaDialect,
  tokenizer: vllmTokenizer,
}

const gauges = { running: 'vllm:num_requests_running', queued: 'vllm:num_requests_waiting' }

/** It puts the activation that its model names, a sigmoid, over the scores by itself. */
const ranking = { scoreKind: 'probability', documentsMax: null } as const

/**
 * It mounts only the routes of what its model can do (since 2026; earlier ones mount all, and count as chat), and answers
 * a GET on one that wants a POST with 405. null: its model only classifies or rewards, which is of no use here.
 */
async function workOf(get: ProbeFetch): Promise<'chat' | 'rerank' | 'embedding' | 'audio' | null> {
  const has = async (path: string) => (await ask(get, path)).status === 405
  if (await has('/v1/chat/completions')) return 'chat'
  const [embeds, ranking, transcribes, pools] = await Promise.all(
    ['/v1/embeddings', '/v1/rerank', '/v1/audio/transcriptions', '/pooling'].map(has),
  )
  // A model that embeds can also score, by a distance that is no relevance.
  if (embeds === true) return 'embedding'
  if (ranking === true) return 'rerank'
  if (transcribes === true) return 'audio'
  return pools === true ? null : 'chat'
}

const infoName = 'vllm:cache_config_info{'

/** Of its first engine: each reads its own requests. */
function cacheTokensIn(metrics: string): number | null {
  const [first] = infoLines(metrics)
  return first === undefined ? null : tokensIn(first)
}

function cacheTokensBy(metrics: string): ReadonlyMap<number, number> {
  const tokensBy = new Map<number, number>()
  for (const line of infoLines(metrics)) {
    const engine = /[{,]engine="([0-9]{1,4})"/.exec(line)?.[1]
    const tokens = tokensIn(line)
    if (engine !== undefined && tokens !== null) tokensBy.set(Number(engine), tokens)
  }
  return tokensBy
}

function tokensIn(line: string): number | null {
  const label = (name: string) => countOf(Number(new RegExp(`[{,]${name}="([0-9]{1,12})"`).exec(line)?.[1]))
  return cacheTokensOf(label('num_gpu_blocks'), label('block_size'))
}

/** The lines of this name, one for each engine, up to as many as are told apart. */
function* infoLines(metrics: string): Generator<string> {
  let at = metrics.startsWith(infoName) ? 0 : metrics.indexOf(`\n${infoName}`) + 1
  for (let read = 0; read < ranksMax && metrics.startsWith(infoName, at); read++) {
    const [line = ''] = metrics.slice(at, at + infoLengthMax).split('\n', 1)
    yield line
    const next = metrics.indexOf(`\n${infoName}`, at)
    if (next === -1) return
    at = next + 1
  }
}

/** UTF-16 units of the line that is read. */
const infoLengthMax = 8_192

/**
 * The status of a server that has all its listed models in memory; `unhealthy` is the meaning of a 503 from its health
 * check.
 */
export async function probeServing(
  kind: RuntimeKind,
  unhealthy: 'loading' | 'down',
  get: ProbeFetch,
  sign: Answer | Promise<Answer> = ask(get, '/health'),
): Promise<RuntimeStatus> {
  const [health, status] = await Promise.all([sign, probeModelList(kind, get)])
  if (health.status !== 200) return idleStatus(kind, health.status === 503 ? unhealthy : 'down')
  return { ...status, models: status.models.map((model) => ({ ...model, loaded: true })) }
}
