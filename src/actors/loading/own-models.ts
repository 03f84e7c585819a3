import { Problem } from '../../errors.ts'
import { isAllowed, isOwn, isVisible, type PlacementRequest } from '../../machines/rules/eligibility.ts'
import { place } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import { notControllable, wouldNot } from './model-wishes.ts'
import type { CommandOutcome, ServerCommands } from './server-commands.ts'

/** A model, as a request for it would be placed now. */
export interface WantedModel {
  readonly table: RoutingTable
  readonly request: PlacementRequest
}

const answers = ({ nodeState }: Route) => nodeState === 'ready' || nodeState === 'live' || nodeState === 'draining'

/** The routes of the caller's own nodes that its policy lets it use, whether they can serve now or not. */
function ownRoutes({ table, request: { modelId, access } }: WantedModel): readonly Route[] {
  const { customerId, policy } = access
  return (table.byModel.get(modelId) ?? []).filter(
    (route) =>
      isOwn(route, customerId) &&
      isVisible(route, access) &&
      isAllowed(route, access) &&
      policy.allows(route.policyNames),
  )
}

/** The owner of a node loads and unloads its models, by what Ollama's clients send (§28). */
export class OwnModels {
  constructor(private readonly servers: Pick<ServerCommands, 'canTell' | 'tell' | 'look'>) {}

  has(wanted: WantedModel): boolean {
    return ownRoutes(wanted).length > 0
  }

  /**
   * Resolves when the model is in memory on one of the caller's nodes. Where no server can be told, or none is the caller's, the
   * model's first request loads it, and nothing is done here. Refuses with `upstream_error` where the server would not.
   */
  async load(wanted: WantedModel): Promise<void> {
    const { table, request } = wanted
    const own = ownRoutes(wanted).filter(({ ready, serves }) => ready && serves.includes(request.modality))
    if (own.some(({ loaded }) => loaded === true)) return
    const able = own.filter((route) => this.servers.canTell(route))
    const placement = place(table, { ...request, ownOnly: true })
    const placed = placement.kind === 'placed' ? able.find((route) => route === placement.route) : undefined
    const chosen = placed ?? able[0]
    if (chosen !== undefined && (await this.tell(chosen, 'load')) === 'refused') throw wouldNot()
  }

  /**
   * Resolves when each of the caller's nodes was told to let the model go: what is known of a node's memory may be a poll old.
   * Refuses with `own_nodes_only` where none is the caller's, `no_route_available` where none answers, `invalid_state` where
   * no server can be told, and `upstream_error`.
   */
  async unload(wanted: WantedModel): Promise<void> {
    const own = ownRoutes(wanted)
    if (own.length === 0) throw new Problem('own_nodes_only', { param: 'keep_alive', detail: notYours })
    const there = own.filter(answers)
    if (there.length === 0) throw new Problem('no_route_available')
    const outcomes = await Promise.all(there.map(async (route) => ({ route, told: await this.tell(route, 'unload') })))
    if (outcomes.every((each) => each.told === 'untellable')) throw notControllable()
    // A server may refuse to let go what it does not hold.
    if (outcomes.some((each) => each.told === 'refused' && each.route.loaded !== false)) throw wouldNot()
  }

  /** The caller may ask at once what is in memory. */
  private async tell(route: Route, wish: ModelWishName): Promise<CommandOutcome> {
    const outcome = await this.servers.tell(route, wish)
    if (outcome === 'done') await this.servers.look(route, wish)
    return outcome
  }
}

const notYours = 'A model can be unloaded only from nodes of your own, and none of them has this one.'
