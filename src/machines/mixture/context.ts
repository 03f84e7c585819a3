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

/** From the start of the chart, ms. */
export interface MixtureDeadlines {
  readonly expertsMs: number
  readonly wallMs: number
}

export interface MixtureContext extends MixtureInput {
  /** null: not checked yet, or not understood. */
  readonly config: MixtureConfig | null
  /** null: not checked yet, or refused. */
  readonly accepted: AcceptedMixture | null
  readonly planned: readonly PlannedExpert[]
  /** By expert; null: not settled yet. */
  readonly results: readonly (SubCallResult | null)[]
  /** Where the calls went that have not settled, by expert; `aggregatorIndex` for the aggregator's. */
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
/** null: admitted. */
export type AdmitOutput = Problem | null

export interface PlanInput extends OfRun {
  readonly accepted: AcceptedMixture
}

export type SubCallInput = OfRun & { readonly accepted: AcceptedMixture; readonly model: string } & (
    | { readonly role: 'expert'; readonly index: number; readonly planned: PlannedExpert }
    | { readonly role: 'aggregator'; readonly answers: readonly string[] }
  )

export interface SettleInput extends OfRun {
  /** Used by all sub-calls. */
  readonly tokens: number
}
