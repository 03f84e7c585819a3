import type { ModelEntryRow, NodeRow } from '../../db/queries/pool/pool.ts'
import type { CustomerId, ProfileId, RuntimeId } from '../../ids.ts'
import type { EjectionState } from '../../machines/rules/ejection.ts'
import type { NodeState, Route, RouteLoad, RoutingTable } from '../../machines/rules/routing.ts'
import type { VerifyKey } from '../../protocol/signing/ed25519.ts'
import type { Modality } from '../../protocol/wire/nodes/agent.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import type { RuntimeModel } from '../../runtimes/runtime.ts'

/** One model of one runtime, for as long as the process knows it. */
export interface Profile {
  readonly profileId: ProfileId
  readonly upstreamModelId: string
  readonly load: RouteLoad
  ejection: EjectionState
  /** Unix seconds, 0 if never. */
  measuredAt: number
  /** The first token of a call was timed since the last poll: the measurement is fresh. */
  timedSincePoll: boolean
  /** Of the last report that had the model. */
  modality: Modality
  /** As the node reported it last; null: not there now. */
  model: RuntimeModel | null
}

/** What a route says of its node. */
export interface RoutedNode {
  readonly row: NodeRow
  readonly state: NodeState
  readonly heldUntilMs: number
  /** Of an agent that can be reached. */
  readonly identity: VerifyKey | null
  readonly runtimes: ReadonlyMap<string, RoutedRuntime>
}

export interface RoutedRuntime {
  readonly runtimeId: RuntimeId
  readonly kind: RuntimeKind
  /** Of the last status. */
  readonly slotsTotal: number | null
  readonly profiles: ReadonlyMap<string, Profile>
}

/** Catalogue entries by id and by alias. */
export type Catalogue = ReadonlyMap<string, CatalogueModel>

interface CatalogueModel {
  readonly modelId: string
  readonly names: readonly string[]
  readonly contextLength: number | null
  readonly maxOutputLength: number | null
  readonly prices: Route['prices']
}

function pricesOf({ promptTokenPriceWei, completionTokenPriceWei }: ModelEntryRow): Route['prices'] {
  const prices = { promptTokenWei: promptTokenPriceWei ?? 0n, completionTokenWei: completionTokenPriceWei ?? 0n }
  return prices.promptTokenWei > 0n || prices.completionTokenWei > 0n ? prices : null
}

/** An id wins over an alias, and the entry that sorts first over a later one with the same alias. */
export function catalogueOf(entries: readonly ModelEntryRow[]): Catalogue {
  const sorted = [...entries].sort((a, b) => (a.modelId < b.modelId ? -1 : 1))
  const models = sorted.map((entry) => ({
    modelId: entry.modelId,
    names: [entry.modelId, ...entry.aliases],
    contextLength: entry.contextLength,
    maxOutputLength: entry.maxOutputLength,
    prices: pricesOf(entry),
  }))
  const catalogue = new Map<string, CatalogueModel>(models.map((model) => [model.modelId, model]))
  for (const model of models) {
    for (const name of model.names) if (!catalogue.has(name)) catalogue.set(name, model)
  }
  return catalogue
}

/** The id clients use for what a node calls `upstreamModelId`. */
export function publicIdOf(catalogue: Catalogue, upstreamModelId: string): string {
  return catalogue.get(upstreamModelId)?.modelId ?? upstreamModelId
}

const least = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : Math.min(a, b))

function routeOf(node: RoutedNode, runtime: RoutedRuntime, profile: Profile, catalogue: Catalogue): Route {
  const { row } = node
  const model = catalogue.get(profile.upstreamModelId)
  return {
    profileId: profile.profileId,
    nodeId: row.nodeId,
    runtimeId: runtime.runtimeId,
    runtimeKind: runtime.kind,
    modality: profile.modality,
    agent: node.identity,
    customerId: row.customerId,
    visibility: row.visibility,
    privacyClass: row.privacyClass,
    nodeClass: row.nodeClass,
    rank: row.rank,
    external: row.external,
    nodeState: node.state,
    ready: node.state === 'ready' && profile.model?.ready === true,
    modelId: model?.modelId ?? profile.upstreamModelId,
    modelNames: model?.names ?? [profile.upstreamModelId],
    upstreamModelId: profile.upstreamModelId,
    // The operator's figure cannot make a machine's context longer than it is.
    contextLength: least(model?.contextLength ?? null, profile.model?.contextLength ?? null),
    maxOutputLength: model?.maxOutputLength ?? null,
    slotsTotal: runtime.slotsTotal,
    heldUntilMs: node.heldUntilMs,
    priced: model !== undefined && model.prices !== null,
    prices: model?.prices ?? null,
    loaded: profile.model?.loaded ?? null,
    measuredAt: profile.measuredAt,
    load: profile.load,
  }
}

function* routesOf(node: RoutedNode, catalogue: Catalogue): Generator<Route> {
  for (const runtime of node.runtimes.values()) {
    for (const profile of runtime.profiles.values()) yield routeOf(node, runtime, profile, catalogue)
  }
}

/** The table of all nodes that are not revoked. Profiles whose model is gone stay: known, and not ready. */
export function buildTable(
  nodes: Iterable<RoutedNode>,
  catalogue: Catalogue,
  version: number,
  publishedAtMs: number,
): RoutingTable {
  const routes: Route[] = []
  const byModel = new Map<string, Route[]>()
  const owners = new Map<string, CustomerId>()
  for (const node of nodes) {
    owners.set(node.row.nodeId, node.row.customerId)
    for (const route of routesOf(node, catalogue)) {
      routes.push(route)
      for (const name of new Set(route.modelNames)) {
        const sharing = byModel.get(name)
        if (sharing === undefined) byModel.set(name, [route])
        else sharing.push(route)
      }
    }
  }
  return { version, publishedAtMs, routes, byModel, owners }
}
