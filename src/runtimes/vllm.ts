import type { RuntimeKind } from '../protocol/wire/node.ts'
import { ask } from './answers.ts'
import { isOwnedBy, probeModelList } from './openai.ts'
import { idleStatus, type ProbeFetch, type RuntimeModule, type RuntimeStatus } from './runtime.ts'

/** It listens only when its model is loaded; `/health` turns 503 when its engine has died. */
export const vllm: RuntimeModule = {
  kind: 'vllm',
  ports: [8000],
  detect: (get) => isOwnedBy('vllm', get),
  probe: (get) => probeServing('vllm', 'down', get),
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
