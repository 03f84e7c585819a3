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

/** `svc.mixture` as it was understood. */
export interface MixtureConfig {
  readonly strategy: StrategyName
  readonly experts: readonly Expert[]
  /** null where the strategy has no use for one. */
  readonly aggregator: string | null
  readonly minExperts: number
}

/** What the checks of §7 look at. */
export interface MixtureRequest {
  readonly body: ChatRequest
  /** Where the request names a machine, as an error's `param`; null: nowhere. */
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
  /** P without its pictures and sounds, of which nobody knows what room they take. */
  readonly textTokens: number
  /** M of §7: each sub-call may write so much. */
  readonly outputTokens: number
  /** Over all sub-calls. */
  readonly estimate: number
}

export type CheckedMixture =
  | { readonly kind: 'accepted'; readonly accepted: AcceptedMixture }
  /** `config`: null where it was not understood. */
  | { readonly kind: 'refused'; readonly problem: Problem; readonly config: MixtureConfig | null }

/** What became of one expert's placement; `full`: own machines serve it and have no free slot. */
export type PlannedExpert =
  | { readonly kind: 'placed'; readonly route: Route }
  | { readonly kind: 'full' }
  | { readonly kind: 'no_node' }

/** The machine a sub-call went to. */
export interface DispatchedCall {
  readonly requestId: RequestId
  readonly nodeId: NodeId
  readonly runtimeId: RuntimeId
  readonly runtimeKind: RuntimeKind
}

/** A sub-call that a machine answered, with something or nothing. */
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
      /** The sub-call whose answer it is. */
      readonly call: MeteredCall
    }
  | { readonly kind: 'failed'; readonly problem: Problem }
  | { readonly kind: 'cancelled' }

export interface MixtureReport {
  readonly end: MixtureEnd
  /** null: refused before it was understood. */
  readonly config: MixtureConfig | null
  /** Empty where nothing was dispatched. */
  readonly experts: readonly SubCallResult[]
  /** null: not called. */
  readonly aggregator: SubCallResult | null
}
