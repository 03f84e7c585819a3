import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import { ask, cacheTokensOf, countOf } from './answers.ts'
import { isOwnedBy, probeModelList } from './openai.ts'
import { jinaDialect, ranks } from './rerank.ts'
import { idleStatus, type ProbeFetch, type RuntimeModel, type RuntimeModule, type RuntimeStatus } from './runtime.ts'

/** It listens only when its model is loaded; `/health` turns 503 when its engine has died. */
export const vllm: RuntimeModule = {
  kind: 'vllm',
  ports: [8000],
  detect: (get) => isOwnedBy('vllm', get),
  async probe(get, before) {
    const [served, work] = await Promise.all([probeServing('vllm', 'down', get), workOf(get)])
    const cacheTokens = work === 'chat' ? await cacheTokensAsked(get, before, served) : null
    const models = served.models.map((model): RuntimeModel => {
      if (work === 'chat') return { ...model, cacheTokens }
      return work === 'rerank' ? ranks(model, ranking) : { ...model, modality: 'embedding' }
    })
    return { ...served, models }
  },
  rerank: jinaDialect,
}

/** It puts the activation that its model names, a sigmoid, over the scores by itself. */
const ranking = { scoreKind: 'probability', documentsMax: null } as const

/**
 * It mounts only the routes of what its model can do (since 2026; earlier ones mount all, and count as chat), and answers
 * a GET on one that wants a POST with 405.
 */
async function workOf(get: ProbeFetch): Promise<'chat' | 'rerank' | 'embedding'> {
  const has = async (path: string) => (await ask(get, path)).status === 405
  const [chats, ranking, embeds] = await Promise.all(['/v1/chat/completions', '/v1/rerank', '/v1/embeddings'].map(has))
  if (chats === true) return 'chat'
  // A model that embeds can also score, by a distance that is no relevance.
  return embeds === true ? 'embedding' : ranking === true ? 'rerank' : 'chat'
}

const infoName = 'vllm:cache_config_info{'

/** Its metrics are long, and the size of its cache is that of its start: they are read once. */
async function cacheTokensAsked(
  get: ProbeFetch,
  before: RuntimeStatus | null | undefined,
  { models }: RuntimeStatus,
): Promise<number | null> {
  const known = before?.models[0]?.cacheTokens
  if (known !== undefined || models.length === 0) return known ?? null
  try {
    const metrics = await get('/metrics')
    const text = await metrics.text()
    return metrics.status === 200 ? cacheTokensIn(text) : null
  } catch {
    // Where they are too long or too late, the server still serves.
    return null
  }
}

/** Of its first engine: each reads its own requests. */
function cacheTokensIn(metrics: string): number | null {
  const at = metrics.startsWith(infoName) ? 0 : metrics.indexOf(`\n${infoName}`) + 1
  if (at === 0 && !metrics.startsWith(infoName)) return null
  const [line = ''] = metrics.slice(at, at + infoLengthMax).split('\n', 1)
  const label = (name: string) => countOf(Number(new RegExp(`[{,]${name}="([0-9]{1,12})"`).exec(line)?.[1]))
  return cacheTokensOf(label('num_gpu_blocks'), label('block_size'))
}

/** UTF-16 units of the line that is read. */
const infoLengthMax = 8_192

/** The status of a server that holds all the models it lists; `unhealthy` is what a `/health` other than 200 means. */
export async function probeServing(
  kind: RuntimeKind,
  unhealthy: 'loading' | 'down',
  get: ProbeFetch,
): Promise<RuntimeStatus> {
  const [health, status] = await Promise.all([ask(get, '/health'), probeModelList(kind, get)])
  if (health.status !== 200) return idleStatus(kind, health.status === 503 ? unhealthy : 'down')
  return { ...status, models: status.models.map((model) => ({ ...model, loaded: true })) }
}
