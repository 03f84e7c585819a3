import { Problem } from '../../errors.ts'
import { noMatches } from '../../machines/placement/cache-view.ts'
import { placementRefusal } from '../../machines/refusals/placement-refusal.ts'
import { isFree, isOwn, judge, type PlacementRequest, verdictRank } from '../../machines/rules/eligibility.ts'
import { place } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'

/** Whose text it is, and which model would read it. */
export interface TokenWish {
  readonly access: PlacementRequest['access']
  readonly modelId: string
  /** The one node of the caller's that may be asked; null: any. */
  readonly pin: string | null
  readonly profileId: string | null
}

const noProfiles: ReadonlySet<string> = new Set()

/** As a chat would be placed: no context is too small for a question about tokens, and no slot is needed. */
const asChat = (wish: TokenWish): PlacementRequest => ({
  ...wish,
  modality: 'chat',
  byAgents: true,
  ownOnly: false,
  unlisted: null,
  exclude: noProfiles,
  side: null,
  freeOnly: false,
  prompt: null,
  matches: noMatches,
  nowMs: Date.now(),
  queueWaitMs: null,
  cacheWaitMs: null,
  contextLeast: null,
  contextWanted: null,
  contextAbove: null,
})

const lacking = (detail: string) => new Problem('modality_not_supported', { param: 'model', detail })

/** Why none of the routes that serve the model is asked. */
function unasked(modelId: string, side: readonly Route[], able: readonly Route[]): Problem {
  if (side.length === 0)
    return lacking(`Only nodes that bill for ${modelId} serve it to you, and none of them is asked.`)
  if (able.length === 0) return lacking(`No node that serves ${modelId} to you has a tokenizer that can be asked.`)
  const detail = `The model ${modelId} is in the memory of no node, and a question about tokens loads none.`
  return new Problem('no_route_available', { detail })
}

/**
 * The routes that may be asked about the tokens of this caller's text, the best first: those that a chat could go to, but none
 * that bills, none of a hosted provider, and none whose server would have to load the model. Where nodes of the caller's own serve
 * the model, no other node learns of the text. Throws a `Problem` where none is left.
 */
export function tokenRoutes(
  table: RoutingTable,
  wish: TokenWish,
  hasTokenizer: (route: Route) => boolean,
): readonly Route[] {
  const request = asChat(wish)
  const { modelId, access } = wish
  const placement = place(table, request)
  if (placement.kind === 'refused') throw placementRefusal(table, request, placement.code)
  const routes = table.byModel.get(modelId) ?? []
  const serving = routes.filter((route) => verdictRank[judge(route, request)] >= verdictRank.tried)
  const own = serving.filter((route) => isOwn(route, access.customerId))
  const side = own.length > 0 ? own : serving.filter((route) => isFree(route, access.customerId))
  const able = side.filter((route) => !route.external && hasTokenizer(route))
  const asked = able.filter(({ loaded }) => loaded !== false)
  if (asked.length === 0) throw unasked(modelId, side, able)
  return asked.toSorted((a, b) => a.rank - b.rank || a.load.inFlight - b.load.inFlight)
}
