import type { Problem } from '../../errors.ts'
import type { CustomerId, NodeId, RequestId, RuntimeId } from '../../ids.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import type { SubCallStatus } from '../../protocol/wire/inference/mixture.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import type { EffectivePolicy } from '../rules/model-policy.ts'
import type { Route, RoutingTable } from '../rules/routing.ts'
import type { StrategyName } from './strategies/registry.ts'
import type { AnswerMessage } from './strategies/strategy.ts'

export interface Expert {
  readonly model: string
  readonly weight: number
}

/** The parsed `svc.mixture`. */
export interface MixtureConfig {
  readonly strategy: StrategyName
  readonly experts: readonly Expert[]
  /** null if the strategy needs no aggregator. */
  readonly aggregator: string | null
  readonly minExperts: number
}

/** The input of the checks of §7. */
export interface MixtureRequest {
  readonly body: ChatRequest
  /** The `param` of an error if the request names a node, otherwise null. */
  readonly pinParam: string | null
  readonly access: {
    readonly customerId: CustomerId
    readonly accountStatus: string
    readonly policy: EffectivePolicy
  }
  readonly table: RoutingTable
  readonly bounds: MixtureBounds
  /** Unix ms. */
  readonly nowMs: number
}

export interface MixtureBounds {
  readonly expertsMax: number
  /** Over all sub-calls. */
  readonly tokensMax: number
  /** `max_tokens` of a sub-call where the request has none. */
  readonly outputTokensDefault: number
}

/** A request that passed all checks. */
export interface AcceptedMixture {
  readonly config: MixtureConfig
  /** P of §7. */
  readonly promptTokens: number
  /** P without images and sounds, whose size in the context is unknown. */
  readonly textTokens: number
  /** M of §7: the tokens that each sub-call may write. */
  readonly outputTokens: number
  /** Over all sub-calls. */
  readonly estimate: number
}

export type CheckedMixture =
  | { readonly kind: 'accepted'; readonly accepted: AcceptedMixture }
  /** `config` is null if it could not be parsed. */
  | { readonly kind: 'refused'; readonly problem: Problem; readonly config: MixtureConfig | null }

/** The placement of one expert. `full` means that own nodes serve the model and have no free slot. */
export type PlannedExpert =
  | { readonly kind: 'placed'; readonly route: Route }
  | { readonly kind: 'full' }
  | { readonly kind: 'no_node' }

/** The node of a sub-call. */
export interface DispatchedCall {
  readonly requestId: RequestId
  readonly nodeId: NodeId
  readonly runtimeId: RuntimeId
  readonly runtimeKind: RuntimeKind
}

/** A sub-call that a node answered, even if the answer was empty. */
export interface MeteredCall extends DispatchedCall {
  readonly usage: TokenUsage
  readonly usageEstimated: boolean
  readonly receiptHash: string
  readonly latencyMs: number
}

/** The one choice of an answer, by allow-list. */
export interface AnswerChoice {
  readonly message: AnswerMessage
  readonly finish_reason: string
  readonly logprobs?: unknown
}

export type SubCallResult =
  | { readonly status: 'ok'; readonly choice: AnswerChoice; readonly call: MeteredCall }
  | { readonly status: Exclude<SubCallStatus, 'ok'>; readonly call: MeteredCall | DispatchedCall | null }

export const isMetered = (call: SubCallResult['call']): call is MeteredCall => call !== null && 'usage' in call

/** How a mixture ended. */
export type MixtureEnd =
  | {
      readonly kind: 'succeeded'
      readonly choice: AnswerChoice
      /** The sub-call that gave the answer. */
      readonly call: MeteredCall
    }
  | { readonly kind: 'failed'; readonly problem: Problem }
  | { readonly kind: 'cancelled' }

export interface MixtureReport {
  readonly end: MixtureEnd
  /** null if the mixture was refused before its configuration was parsed. */
  readonly config: MixtureConfig | null
  /** Empty if no sub-call was sent. */
  readonly experts: readonly SubCallResult[]
  /** null if the aggregator was not called. */
  readonly aggregator: SubCallResult | null
}
