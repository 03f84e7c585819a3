import type { CustomerId, NodeId, ProfileId, RuntimeId } from '../../ids.ts'
import type { VerifyKey } from '../../protocol/signing/ed25519.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { ModelFile, ModelMemory } from '../../protocol/wire/nodes/model-facts.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import type { Reading } from '../placement/reading.ts'

export type NodeState =
  | 'enrolled'
  | 'live'
  | 'ready'
  | 'draining'
  | 'yielding'
  | 'asleep'
  | 'stale'
  | 'offline'
  | 'revoked'
export type PrivacyClass = 'public' | 'trusted' | 'private'
export type Visibility = 'private' | 'public'

/**
 * The values that change while a route is in use. One object per profile for the life of the process, shared by all
 * versions of the table and written only by the router; the hot path reads it without waiting.
 */
export interface RouteLoad {
  inFlight: number
  /** Exponentially weighted time to first token. null before the first streamed call. */
  ttftEwmaMs: number | null
  tokensPerSecond: number | null
  /** Exponentially weighted duration of a call, from which the wait for a slot is estimated. */
  durationEwmaMs: number | null
  /** Unix ms until which the route is ejected; 0 when it is not. */
  ejectedUntilMs: number
  readonly reading: Reading
}

/** A node that sleeps, as who may wake it reads of it (§39). */
export interface SleepingNode {
  /** What an operator calls it, or its id. */
  readonly name: string
  /** A hardware address is known, to which a magic packet can be sent. */
  readonly wakeable: boolean
  /** When it may be woken, as its owner wrote it; null: always. */
  readonly hours: string | null
}

/** A model's cache at one server, in which adapters of that model have their prompts, too. */
export interface CacheOwner {
  readonly modelId: string
  /** As its server calls it. */
  readonly upstreamModelId: string
  readonly profileId: ProfileId
}

/** What a request is written for, and its answer read by. */
export type ServingRoute = Pick<Route, 'runtimeId' | 'runtimeKind' | 'ranking' | 'agent' | 'external'>

/** One model on one runtime of one node, as the hot path sees it. */
export interface Route {
  readonly profileId: ProfileId
  readonly nodeId: NodeId
  readonly runtimeId: RuntimeId
  readonly runtimeKind: RuntimeKind
  /** The kinds of work that the model does, the main one first. */
  readonly serves: readonly Modality[]
  /** `serves` is a guess by the model's name: its owner may try it for other work (§35). */
  readonly workGuessed: boolean
  /** How its server ranks; null: it does not, or an agent stands before it, who ranks as it is asked (§12). */
  readonly ranking: { readonly scoreKind: 'probability' | 'logit'; readonly documentsMax: number | null } | null
  /** The agent in front of the runtime. Requests to it name the runtime, and this key verifies its receipts (§22). */
  readonly agent: VerifyKey | null
  readonly customerId: CustomerId
  readonly visibility: Visibility
  readonly privacyClass: PrivacyClass
  readonly nodeClass: string
  /** 0 to 9: a higher one is used only when no lower one can serve in time. */
  readonly rank: number
  /** A hosted provider: prompts leave the owner's machines. */
  readonly external: boolean
  readonly nodeState: NodeState
  /** True if this model can answer now: its node is `ready`, and so is its profile. */
  readonly ready: boolean
  /** The node sleeps and had this model ready before; null: it does not sleep, or did not have it. */
  readonly asleep: SleepingNode | null
  /** The id that clients use: the id of the catalogue entry, or the node's own name if no entry has it. */
  readonly modelId: string
  /** `modelId` and the entry's aliases: the names that lead here. One array per entry. */
  readonly modelNames: readonly string[]
  /** The names that the model policy is asked about: those, and each without its tag `latest`. */
  readonly policyNames: readonly string[]
  /** The id the node uses. */
  readonly upstreamModelId: string
  /** Members of a request that say at its server which model is meant; null: the id is enough. */
  readonly askedWith: Readonly<Record<string, unknown>> | null
  /** The data-parallel rank of its server that requests name; null: it has one, or shares them out by itself. */
  readonly engineRank: number | null
  /** Whose cache it is: of the model that this one adapts at the same server, else its own. */
  readonly cache: CacheOwner
  readonly contextLength: number | null
  readonly maxOutputLength: number | null
  /** null if the runtime does not report it. Such a runtime queues by itself. */
  readonly slotsTotal: number | null
  /** Unix ms until which a flapping node gets no new work (§8); 0 when it is not held down. */
  readonly heldUntilMs: number
  /** True if the catalogue has a price for this model. Then it is free only for its owner. */
  readonly priced: boolean
  /** The prices of the catalogue, or null. */
  readonly prices: { readonly promptTokenWei: bigint; readonly completionTokenWei: bigint } | null
  /** True if the model is already in memory. null if the server does not say. */
  readonly loaded: boolean | null
  /** The server's report of the model's files and memory; null if it reports nothing. */
  readonly file: ModelFile | null
  readonly memory: ModelMemory | null
  /** When `modelId` was first known here, Unix seconds. It never changes. */
  readonly knownAt: number
  readonly load: RouteLoad
}

/** Immutable. The router replaces the whole table. */
export interface RoutingTable {
  readonly version: number
  readonly publishedAtMs: number
  readonly routes: readonly Route[]
  /** Every id or alias a client may name → the routes that serve it, ready or not. */
  readonly byModel: ReadonlyMap<string, readonly Route[]>
  /** Every name without a tag → the routes of Ollama that have it as `latest`. Whether it leads there depends on the caller. */
  readonly latest: ReadonlyMap<string, readonly Route[]>
  /** The owner of every node that is not revoked, even without routes. Pins are checked against it. */
  readonly owners: ReadonlyMap<string, CustomerId>
}
