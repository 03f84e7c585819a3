import type { Problem } from '../../errors.ts'
import type { RequestId } from '../../ids.ts'
import type {
  AcceptedMixture,
  DispatchedCall,
  MixtureConfig,
  MixtureEnd,
  MixtureRequest,
  PlannedExpert,
  SubCallResult,
} from './types.ts'

export interface MixtureInput {
  readonly requestId: RequestId
  readonly request: MixtureRequest
  readonly deadlines: MixtureDeadlines
}

/** Times since the start of the chart, ms. */
export interface MixtureDeadlines {
  readonly expertsMs: number
  readonly wallMs: number
}

export interface MixtureContext extends MixtureInput {
  /** null if it was not checked yet, or is not valid. */
  readonly config: MixtureConfig | null
  /** null if it was not checked yet, or was refused. */
  readonly accepted: AcceptedMixture | null
  readonly planned: readonly PlannedExpert[]
  /** The results by expert. null for a sub-call that has not ended. */
  readonly results: readonly (SubCallResult | null)[]
  /** The nodes of the calls that have not ended, by expert, or `aggregatorIndex` for the aggregator. */
  readonly dispatched: ReadonlyMap<number, DispatchedCall>
  readonly aggregator: SubCallResult | null
  readonly end: MixtureEnd | null
}

export const aggregatorIndex = -1

export type MixtureEvent =
  | { readonly type: 'subCall.dispatched'; readonly index: number; readonly call: DispatchedCall }
  | { readonly type: 'subCall.settled'; readonly index: number; readonly result: SubCallResult }
  | { readonly type: 'deadline.experts' }
  | { readonly type: 'deadline.wall' }
  | { readonly type: 'client.gone' }
  | { readonly type: 'gateway.stopping' }

interface OfRun {
  readonly requestId: RequestId
}

export interface AdmitInput extends OfRun {
  readonly tokens: number
}
/** null means that the mixture was admitted. */
export type AdmitOutput = Problem | null

export interface PlanInput extends OfRun {
  readonly accepted: AcceptedMixture
}

export type SubCallInput = OfRun & { readonly accepted: AcceptedMixture; readonly model: string } & (
    | { readonly role: 'expert'; readonly index: number; readonly planned: PlannedExpert }
    | { readonly role: 'aggregator'; readonly answers: readonly string[] }
  )

export interface SettleInput extends OfRun {
  /** The tokens that all sub-calls used. */
  readonly tokens: number
}
