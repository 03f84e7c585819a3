import type { RuntimeKind } from '../protocol/wire/nodes/node.ts'
import { ask } from './answers.ts'
import { isOwnedBy, probeModelList } from './openai.ts'
import { jinaDialect, ranks } from './rerank.ts'
import { idleStatus, type ProbeFetch, type RuntimeModule, type RuntimeStatus } from './runtime.ts'

/** It listens only when its model is loaded; `/health` turns 503 when its engine has died. */
export const vllm: RuntimeModule = {
  kind: 'vllm',
  ports: [8000],
  detect: (get) => isOwnedBy('vllm', get),
  async probe(get) {
    const [status, work] = await Promise.all([probeServing('vllm', 'down', get), workOf(get)])
    if (work === 'chat') return status
    const models = status.models.map((model) =>
      work === 'rerank' ? ranks(model, ranking) : { ...model, modality: 'embedding' as const },
    )
    return { ...status, models }
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
