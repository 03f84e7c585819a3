import type { ModelEntryRow } from '../../../db/queries/pool/model-entries.ts'
import type { FirstToken, NodeRow } from '../../../db/queries/pool/pool.ts'
import type { NodeId, ProfileId, RuntimeId } from '../../../ids.ts'
import type { EjectionState } from '../../../machines/rules/ejection.ts'
import { policyNames } from '../../../machines/rules/model-policy.ts'
import { type ModelWork, type WorkEvidence, workOf } from '../../../machines/rules/model-work.ts'
import type {
  CacheOwner,
  NodeState,
  Route,
  RouteLoad,
  RoutingTable,
  SleepingNode,
} from '../../../machines/rules/routing.ts'
import type { VerifyKey } from '../../../protocol/signing/ed25519.ts'
import { declaredWork, type Modality } from '../../../protocol/wire/nodes/kinds-of-work.ts'
import type { RuntimeKind } from '../../../protocol/wire/nodes/node.ts'
import { usualRanking } from '../../../runtimes/rerank.ts'
import type { RuntimeModel } from '../../../runtimes/runtime.ts'
import { secondMs } from '../../../time.ts'
import type { NodeRest } from '../../sleep/node-sleep.ts'

/** One model of one runtime, for as long as the process knows it. */
export interface Profile {
  readonly profileId: ProfileId
  readonly upstreamModelId: string
  /** When this name of a model was first known here. */
  readonly knownAt: Date
  readonly load: RouteLoad
  /** What the last report that had the model said of its work. */
  work: Pick<WorkEvidence, 'reported' | 'guessed'>
  ejection: EjectionState
  /** Unix seconds, 0 if never. */
  measuredAt: number
  /** The last one that was timed there, by any gateway that has said so; null: none was. What is shown, never the mean. */
  firstToken: FirstToken | null
  /** The kinds of work that it was only supposed to do, and has done; another list after each. */
  answered: readonly Modality[]
  /** The model as the node last reported it. null if the node does not have it now. */
  model: RuntimeModel | null
  /** The model of the same server that it adapts; null: no adapter. */
  adapts: Profile | null
}

/** The part of a node that its routes show. */
export interface RoutedNode {
  readonly row: NodeRow
  readonly state: NodeState
  readonly heldUntilMs: number
  /** The identity of an agent that can be reached. */
  readonly identity: VerifyKey | null
  /** Set while it sleeps, and until what it had ready is ready again. */
  readonly rest: NodeRest | null
  readonly runtimes: ReadonlyMap<string, RoutedRuntime>
}

export interface RoutedRuntime {
  readonly runtimeId: RuntimeId
  readonly kind: RuntimeKind
  /** Of the last status. */
  readonly slotsTotal: number | null
  readonly engineRank: number | null
  readonly profiles: ReadonlyMap<string, Profile>
}

/** Catalogue entries by id and by alias. */
export type Catalogue = ReadonlyMap<string, CatalogueModel>

interface CatalogueModel {
  readonly modelId: string
  readonly names: readonly string[]
  readonly policyNames: readonly string[]
  readonly knownAt: Date
  readonly contextLength: number | null
  readonly maxOutputLength: number | null
  readonly prices: Route['prices']
  readonly serves: readonly Modality[] | null
}

function pricesOf({ promptTokenPriceWei, completionTokenPriceWei }: ModelEntryRow): Route['prices'] {
  const prices = { promptTokenWei: promptTokenPriceWei ?? 0n, completionTokenWei: completionTokenPriceWei ?? 0n }
  return prices.promptTokenWei > 0n || prices.completionTokenWei > 0n ? prices : null
}

/** An id has precedence over an alias. If two entries have one alias, the entry that sorts first has it. */
export function catalogueOf(entries: readonly ModelEntryRow[]): Catalogue {
  const sorted = [...entries].sort((a, b) => (a.modelId < b.modelId ? -1 : 1))
  const namesOf = ({ modelId, aliases }: ModelEntryRow) => [modelId, ...aliases]
  const models = sorted.map((entry) => ({
    modelId: entry.modelId,
    names: namesOf(entry),
    policyNames: policyNames(namesOf(entry)),
    knownAt: entry.knownAt,
    contextLength: entry.contextLength,
    maxOutputLength: entry.maxOutputLength,
    prices: pricesOf(entry),
    serves: entry.serves,
  }))
  const catalogue = new Map<string, CatalogueModel>(models.map((model) => [model.modelId, model]))
  for (const model of models) {
    for (const name of model.names) if (!catalogue.has(name)) catalogue.set(name, model)
  }
  return catalogue
}

/** The id that clients use for the model that a node calls `upstreamModelId`. */
export function publicIdOf(catalogue: Catalogue, upstreamModelId: string): string {
  return catalogue.get(upstreamModelId)?.modelId ?? upstreamModelId
}

const least = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : Math.min(a, b))

/** What a model does on a node. */
export function workOn(
  row: NodeRow,
  { upstreamModelId: id, work, answered }: Profile,
  catalogue: Catalogue,
): ModelWork {
  // An agent knows what it can serve, and its owner says so in its own files.
  const declared = row.kind === 'agent' ? null : (declaredWork(row.serves, id) ?? catalogue.get(id)?.serves ?? null)
  return workOf({ declared, ...work, answered })
}

/** What an operator calls the node; its id where its name is its address, which clients and metrics must not see. */
export const nameOf = ({ nodeId, name, url }: Pick<NodeRow, 'nodeId' | 'name' | 'url'>): string =>
  url !== null && new URL(url).host === name ? nodeId : name

function sleepingOf({ rest, row }: RoutedNode, { profileId }: Profile): SleepingNode | null {
  if (rest === null || !rest.awaited.has(profileId) || row.adminState !== 'active') return null
  return { name: nameOf(row), wakeable: (row.macs ?? []).length > 0, hours: row.wakeHours }
}

/** Another node of the same owner has this node's model in memory. */
export function isElsewhere(
  { byModel, owners }: Pick<RoutingTable, 'byModel' | 'owners'>,
  catalogue: Catalogue,
  nodeId: NodeId,
  { upstreamModelId }: Profile,
): boolean {
  const owner = owners.get(nodeId)
  const routes = byModel.get(publicIdOf(catalogue, upstreamModelId)) ?? []
  return routes.some(
    ({ nodeId: other, ready, load }) => other !== nodeId && ready && !load.reading.cold && owners.get(other) === owner,
  )
}

/** An adapter has its prompts in the cache of the model that it adapts. */
export function cacheOf(profile: Profile, catalogue: Catalogue): CacheOwner {
  const { profileId, upstreamModelId } = profile.adapts ?? profile
  return { profileId, upstreamModelId, modelId: publicIdOf(catalogue, upstreamModelId) }
}

function routeOf(node: RoutedNode, runtime: RoutedRuntime, profile: Profile, catalogue: Catalogue): Route {
  const { row } = node
  const model = catalogue.get(profile.upstreamModelId)
  const { serves, guessed } = workOn(row, profile, catalogue)
  const mayRank = row.kind === 'runtime' && (guessed || serves.includes('rerank'))
  return {
    profileId: profile.profileId,
    nodeId: row.nodeId,
    runtimeId: runtime.runtimeId,
    runtimeKind: runtime.kind,
    serves,
    workGuessed: guessed,
    ranking: profile.model?.ranking ?? (mayRank ? usualRanking(runtime.kind, profile.upstreamModelId) : null),
    agent: node.identity,
    customerId: row.customerId,
    visibility: row.visibility,
    privacyClass: row.privacyClass,
    nodeClass: row.nodeClass,
    rank: row.rank,
    external: row.external,
    nodeState: node.state,
    ready: node.state === 'ready' && profile.model?.ready === true,
    asleep: sleepingOf(node, profile),
    modelId: model?.modelId ?? profile.upstreamModelId,
    modelNames: model?.names ?? [profile.upstreamModelId],
    policyNames: model?.policyNames ?? policyNames([profile.upstreamModelId]),
    upstreamModelId: profile.upstreamModelId,
    askedWith: profile.model?.askedWith ?? null,
    engineRank: runtime.engineRank,
    cache: cacheOf(profile, catalogue),
    // The operator cannot set a context length that is longer than the node's own.
    contextLength: least(model?.contextLength ?? null, profile.model?.contextLength ?? null),
    maxOutputLength: model?.maxOutputLength ?? null,
    slotsTotal: runtime.slotsTotal,
    heldUntilMs: node.heldUntilMs,
    priced: model !== undefined && model.prices !== null,
    prices: model?.prices ?? null,
    loaded: profile.model?.loaded ?? null,
    file: profile.model?.file ?? null,
    memory: profile.model?.memory ?? null,
    knownAt: Math.floor((model ?? profile).knownAt.getTime() / secondMs),
    load: profile.load,
  }
}

/** The routes of one node. */
export function* routesOf(node: RoutedNode, catalogue: Catalogue): Generator<Route> {
  for (const runtime of node.runtimes.values()) {
    for (const profile of runtime.profiles.values()) yield routeOf(node, runtime, profile, catalogue)
  }
}
