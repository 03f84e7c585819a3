import { failureName, type Log } from '../../log.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { probeBytesMax } from '../../polling/runtime-probe.ts'
import { isControllable, type ModelWishName, tellRuntime } from '../../polling/tell-runtime.ts'
import { nodeModelsPath } from '../../protocol/wire/nodes/agent.ts'
import { secondMs } from '../../time.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { PoolRouter } from '../pool/pool-router.ts'

/** `untellable`: the server has no such interface. `refused`: it would not, or did not answer. */
export type CommandOutcome = 'done' | 'refused' | 'untellable'

/** An agent only takes note of a wish. */
const agentTimeoutMs = 10 * secondMs

const looksMax = 10
const lookMs = 100

/** Tells the servers of models what to have in memory, whether the gateway or an agent reaches them. */
export class ServerCommands {
  constructor(private readonly options: { readonly router: PoolRouter; readonly log: Log }) {}

  /** False where the server of this route has no such interface. An agent is asked. */
  canTell({ nodeId, agent, runtimeKind }: Route): boolean {
    return this.options.router.transport(nodeId) !== null && (agent !== null || isControllable(runtimeKind))
  }

  /** Resolves when the server says that it has done it; an agent may still be at it. Never rejects. */
  async tell(route: Route, wish: ModelWishName): Promise<CommandOutcome> {
    const { router, log } = this.options
    const transport = router.transport(route.nodeId)
    if (transport === null || !this.canTell(route)) return 'untellable'
    const [modality] = route.serves
    const adapted = route.cache.profileId === route.profileId ? {} : { adapts: route.cache.upstreamModelId }
    const model = { id: route.upstreamModelId, ...(modality === undefined ? {} : { modality }), ...adapted }
    try {
      if (route.agent !== null) return await tellAgent(transport, wish, model.id)
      const done = await tellRuntime(transport, route.runtimeKind, wish, model)
      return done === null ? 'untellable' : done ? 'done' : 'refused'
    } catch (error) {
      log.warn('model_not_told', { node_id: route.nodeId, wish, failure: failureName(error) })
      return 'refused'
    }
  }

  /**
   * Asks the node how it is, until its memory is as it was told or for a second: an Ollama answers before a model has left it, and
   * an agent before it has begun.
   */
  async look({ nodeId, profileId }: Route, wish: ModelWishName): Promise<void> {
    const { router } = this.options
    for (let looks = 0; looks < looksMax; looks++) {
      if (looks > 0) await Bun.sleep(lookMs)
      await router.pollNow(nodeId)
      const { loaded = null } = router.table().routes.find((route) => route.profileId === profileId) ?? {}
      if (loaded === null || loaded === (wish === 'load')) return
    }
  }
}

/** What an agent answers where none of its servers can be told, or none has the model any more. */
const untellable: ReadonlySet<number> = new Set([404, 409])

async function tellAgent(transport: NodeTransport, wish: ModelWishName, id: string): Promise<CommandOutcome> {
  const path = `${nodeModelsPath}/${encodeURIComponent(id)}/${wish}`
  const response = await transport.fetch(path, {
    method: 'POST',
    body: '',
    signal: AbortSignal.timeout(agentTimeoutMs),
  })
  await response.text(probeBytesMax)
  if (response.status === 202) return 'done'
  return untellable.has(response.status) ? 'untellable' : 'refused'
}
