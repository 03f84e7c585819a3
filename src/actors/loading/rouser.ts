import { loadGivenUp, loadSeen } from '../../machines/placement/loads.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { PoolRouter } from '../pool/pool-router.ts'
import type { ServerCommands } from './server-commands.ts'

export interface RouserOptions {
  readonly servers: Pick<ServerCommands, 'tell'>
  readonly router: Pick<PoolRouter, 'pollNow'>
}

/** Brings models back into memory whose server let them go without ending (vLLM's sleep), and does not take them back by itself. */
export class Rouser {
  /** By profile: one order serves all requests that wait for the model. */
  private readonly rousing = new Map<string, Promise<boolean>>()

  constructor(private readonly options: RouserOptions) {}

  /** Resolves when the server has the model in memory; false: it would not. Never rejects. An agent does it by itself. */
  rouse(route: Route): Promise<boolean> {
    const { profileId, load, agent } = route
    if (agent !== null || !load.reading.dozing) return Promise.resolve(true)
    const known = this.rousing.get(profileId)
    if (known !== undefined) return known
    const rousing = this.tell(route).finally(() => this.rousing.delete(profileId))
    this.rousing.set(profileId, rousing)
    return rousing
  }

  private async tell(route: Route): Promise<boolean> {
    const { servers, router } = this.options
    const { reading } = route.load
    reading.loadStartedAtMs ??= Date.now()
    const isDone = (await servers.tell(route, 'load')) === 'done'
    if (isDone) loadSeen(reading, Date.now())
    else loadGivenUp(reading)
    void router.pollNow(route.nodeId)
    return isDone
  }
}
