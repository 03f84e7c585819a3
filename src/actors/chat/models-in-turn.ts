import { Problem } from '../../errors.ts'
import {
  answeringModel,
  leadsToNextModel,
  modelsRefused,
  type RefusedModel,
} from '../../machines/refusals/models-refused.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import { refusal } from '../dispatch/dispatch.ts'
import { Clocks } from '../dispatch/tries.ts'
import type { Attempt } from '../relay/attempt.ts'
import type { Exchange } from './exchange.ts'
import { outputCeiling, placementRequest } from './wanted.ts'
import { lengthAsked } from './whole-answer.ts'

/** What a try of one model needs. `clocks`: absent where the request names one model. */
export interface Turn {
  readonly request: PlacementRequest
  /** `max_tokens` to inject; null: none. */
  readonly ceiling: number | null
  readonly clocks?: Clocks
  /** Another model was tried before. */
  readonly later?: true
}

/** Why the model cannot be placed now; null: it can, perhaps after a wait. */
function refusalNow(exchange: Exchange, model: string): Problem | null {
  const { command, table } = exchange
  const request = placementRequest(exchange, model)
  const placement = place(table, request)
  return placement.kind === 'refused' ? refusal(command, { table, request }, placement.code) : null
}

/** Throws where none of the models can be placed, not even after a wait: before anything is taken. */
export function refuseUnplaceable(exchange: Exchange, models: readonly string[]): void {
  const refused: RefusedModel[] = []
  for (const model of models) {
    const problem = refusalNow(exchange, model)
    if (problem === null) return
    refused.push({ model, problem })
  }
  const [first, ...more] = refused
  if (first !== undefined) throw modelsRefused([first, ...more])
}

/** `max_tokens` to reserve for, whichever model answers. `own`: to inject for the first. */
export function ceilingOfAll(exchange: Exchange, own: number | null): number | null {
  const { models } = exchange.command
  if (models == null || own === null) return own
  return Math.max(...models.map((model) => outputCeiling(exchange, model) ?? own))
}

/** Of several calls at once all are of one model: the first that has room now, else the first that can be waited for. */
export function turnToOne(exchange: Exchange, models: readonly string[]): PlacementRequest {
  refuseUnplaceable(exchange, models)
  const { table } = exchange
  const kindOf = (model: string) => place(table, placementRequest(exchange, model)).kind
  const kinds = models.map(kindOf)
  const at = kinds.includes('placed') ? kinds.indexOf('placed') : kinds.indexOf('saturated')
  exchange.turnTo(models[at] ?? exchange.command.body.model, null)
  return placementRequest(exchange)
}

/**
 * Runs `work` for the one model of a request, or for each that it names, in their order, until one answers (decision 45). Once `work` has
 * resolved, an answer has begun, and no other model is asked. All models share the request's clocks. Where none answers, the request
 * ends as that of the model whose refusal its client is told.
 */
export function inTurn<T>(exchange: Exchange, first: Turn, work: (turn: Turn) => Promise<T>): Promise<T> {
  const { models } = exchange.command
  return models == null ? work(first) : untilOneAnswers(exchange, models, first, work)
}

const laterTurn = (exchange: Exchange): Turn => ({
  request: placementRequest(exchange),
  ceiling: outputCeiling(exchange),
  later: true,
})

/** Vectors of several models can stand in one index only where they are of one length. Throws where they are known not to be. */
export function lengthsOf(exchange: Exchange, models: readonly string[]): readonly (number | null)[] | null {
  const { command, port } = exchange
  if (command.operation.modality !== 'embedding') return null
  const asked = lengthAsked(command.body)
  const lengths = models.map((model) => port.vectorLengths.of(exchange.modelId(model) ?? model, asked))
  const [first = null, ...others] = lengths
  const at = others.findIndex((length) => length !== null && first !== null && length !== first)
  if (at === -1) return lengths
  const difference = `the vectors of ${models[0]} have ${first} numbers, those of ${models[at + 1]} ${others[at]}`
  throw new Problem('invalid_request', {
    param: 'models',
    detail: `models: ${difference}. Name models whose vectors are equally long.`,
  })
}

const lengthUnknown = (model: string, first: string) =>
  new Problem('invalid_request', {
    param: 'models',
    detail: `It was not tried, because the gateway has not yet seen vectors of both ${first} and ${model}, and so does not know whether they are equally long. Ask each of them once by itself.`,
  })

interface TriedModel extends RefusedModel {
  /** Its last call; null: none was made. */
  readonly attempt: Attempt | null
}

async function untilOneAnswers<T>(
  exchange: Exchange,
  models: readonly string[],
  first: Turn,
  work: (turn: Turn) => Promise<T>,
): Promise<T> {
  const lengths = lengthsOf(exchange, models)
  const clocks = new Clocks(exchange)
  const tried: TriedModel[] = []
  for (const [at, model] of models.entries()) {
    if (at > 0 && lengths !== null && (lengths[0] === null || lengths[at] === null)) {
      tried.push({ model, problem: lengthUnknown(model, models[0] ?? model), attempt: null })
      continue
    }
    if (at > 0) exchange.turnTo(model, null)
    clocks.modelsLeft = models.slice(at + 1).filter((next) => refusalNow(exchange, next) === null).length
    try {
      return await work({ ...(at === 0 ? first : laterTurn(exchange)), clocks })
    } catch (error) {
      if (!(error instanceof Problem) || !leadsToNextModel(error) || exchange.ended() !== null) throw error
      tried.push({ model, problem: error, attempt: exchange.attempt })
    }
  }
  const [one, ...more] = tried as [TriedModel, ...TriedModel[]]
  const answering = answeringModel([one, ...more])
  exchange.turnTo(answering.model, answering.attempt)
  throw modelsRefused([one, ...more])
}
