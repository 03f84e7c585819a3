import type { FirstToken, ModelEntryRow, NodeRow } from '../../db/queries/pool/pool.ts'
import type { ProfileId, RuntimeId } from '../../ids.ts'
import type { EjectionState } from '../../machines/rules/ejection.ts'
import { policyNames } from '../../machines/rules/model-policy.ts'
import type { NodeState, Route, RouteLoad } from '../../machines/rules/routing.ts'
import type { VerifyKey } from '../../protocol/signing/ed25519.ts'
import { type Modality, modalities } from '../../protocol/wire/nodes/agent.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import { usualScoreKind } from '../../runtimes/rerank.ts'
import type { RuntimeModel } from '../../runtimes/runtime.ts'
import { secondMs } from '../../time.ts'

/** One model of one runtime, for as long as the process knows it. */
export interface Profile {
  readonly profileId: ProfileId
  readonly upstreamModelId: string
  /** When this name of a model was first known here. */
  readonly knownAt: Date
  readonly load: RouteLoad
  ejection: EjectionState
  /** Unix seconds, 0 if never. */
  measuredAt: number
  /** The last one that was timed there, by any gateway that has said so; null: none was. What is shown, never the mean. */
  firstToken: FirstToken | null
  /** Of the last report that had the model. */
  modality: Modality
  /** The model as the node last reported it. null if the node does not have it now. */
  model: RuntimeModel | null
}

/** The part of a node that its routes show. */
export interface RoutedNode {
  readonly row: NodeRow
  readonly state: NodeState
  readonly heldUntilMs: number
  /** The identity of an agent that can be reached. */
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
  readonly policyNames: readonly string[]
  readonly knownAt: Date
  readonly contextLength: number | null
  readonly maxOutputLength: number | null
  readonly prices: Route['prices']
  /** null: what its nodes say. */
  readonly serves: readonly Modality[] | null
}

function pricesOf({ promptTokenPriceWei, completionTokenPriceWei }: ModelEntryRow): Route['prices'] {
  const prices = { promptTokenWei: promptTokenPriceWei ?? 0n, completionTokenWei: completionTokenPriceWei ?? 0n }
  return prices.promptTokenWei > 0n || prices.completionTokenWei > 0n ? prices : null
}

/** A word of a later version is passed over. */
function servedBy({ serves }: ModelEntryRow): readonly Modality[] | null {
  const known = modalities.filter((modality) => serves?.includes(modality) === true)
  const [usual] = serves ?? []
  return known.length === 0 ? null : known.toSorted((a, b) => Number(b === usual) - Number(a === usual))
}

const alone: Readonly<Record<Modality, readonly Modality[]>> = {
  chat: ['chat'],
  embedding: ['embedding'],
  rerank: ['rerank'],
  audio: ['audio'],
  image: ['image'],
}

/** An agent knows its models by itself, and refuses what they are not for. */
const servesOf = (node: RoutedNode, { modality }: Profile, declared: readonly Modality[] | null) =>
  node.identity === null && declared !== null ? declared : alone[modality]

/** A server that does not say that it ranks, but is declared to, ranks as its kind does. */
function rankingOf({ model }: Profile, kind: RuntimeKind, serves: readonly Modality[]): Route['ranking'] {
  const told = model?.ranking ?? null
  return told ?? (serves.includes('rerank') ? { scoreKind: usualScoreKind(kind), documentsMax: null } : null)
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
    serves: servedBy(entry),
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

function routeOf(node: RoutedNode, runtime: RoutedRuntime, profile: Profile, catalogue: Catalogue): Route {
  const { row } = node
  const model = catalogue.get(profile.upstreamModelId)
  const serves = servesOf(node, profile, model?.serves ?? null)
  return {
    profileId: profile.profileId,
    nodeId: row.nodeId,
    runtimeId: runtime.runtimeId,
    runtimeKind: runtime.kind,
    serves,
    ranking: rankingOf(profile, runtime.kind, node.identity === null ? serves : []),
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
    policyNames: model?.policyNames ?? policyNames([profile.upstreamModelId]),
    upstreamModelId: profile.upstreamModelId,
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
