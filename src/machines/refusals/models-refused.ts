import { Problem, type ProblemCode, problemKind } from '../../errors.ts'

/** A model of a request that names several, and why it did not answer. */
export interface RefusedModel {
  readonly model: string
  readonly problem: Problem
}

/**
 * What one model cannot and another may (decision 45): its nodes, its prices, what it takes, and what keys may do with it. The rest is of the
 * account, of the request's time or of this gateway, and no other model changes it.
 */
const ofOneModel: ReadonlySet<ProblemCode> = new Set([
  'model_not_found',
  'model_not_allowed',
  'privacy_class_not_allowed',
  'modality_not_supported',
  'context_length_exceeded',
  'unsupported_input',
  'invalid_request',
  'insufficient_funds',
  'max_price_exceeded',
  'no_route_available',
  'node_asleep',
  'capacity_exhausted',
  'model_loading',
  'upstream_error',
  'upstream_timeout',
])

/** Another model may serve the request. */
export const leadsToNextModel = ({ code }: Problem): boolean => ofOneModel.has(code)

/** The refusal for the client: the first that may pass by itself, else the first. */
export function answeringModel<T extends RefusedModel>(refused: readonly [T, ...T[]]): T {
  return refused.find(({ problem }) => problemKind(problem.code).shouldRetry === true) ?? refused[0]
}

const sentence = (text: string) => (text.endsWith('.') ? text : `${text}.`)

/** The refusal where no model of the request can answer now: the code and the wait are those of the one that is told. */
export function modelsRefused(refused: readonly [RefusedModel, ...RefusedModel[]]): Problem {
  const { problem } = answeringModel(refused)
  if (refused.length === 1) return problem
  const each = refused.map(({ model, problem: { message } }) => sentence(`${model}: ${message}`))
  const detail = [`None of the ${refused.length} models of this request can answer now.`, ...each].join(' ')
  return new Problem(problem.code, { ...problem.options, detail })
}
