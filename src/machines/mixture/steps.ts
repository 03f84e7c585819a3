import { Problem } from '../../errors.ts'
import { checkMixture } from './check.ts'
import { aggregatorIndex, type MixtureContext, type MixtureEvent, type SubCallInput } from './context.ts'
import { candidatesOf, traceOf } from './report.ts'
import { answerText, isAnswer, withoutThinking } from './strategies/answer.ts'
import { strategies } from './strategies/registry.ts'
import { type Candidate, isSome, type Strategy } from './strategies/strategy.ts'
import { topWeighted } from './strategies/weighted.ts'
import type { AcceptedMixture, MixtureEnd, MixtureReport, PlannedExpert, SubCallResult } from './types.ts'

/** The time after which failed nodes may be back. Repeating the request at once does not help. */
const quorumRetrySeconds = 5

type Context = MixtureContext
type Change = Partial<
  Pick<Context, 'config' | 'accepted' | 'planned' | 'results' | 'dispatched' | 'aggregator' | 'end'>
>

/** The accepted mixture, which all states after `validating` may rely on. */
export function acceptedOf({ accepted }: Context): AcceptedMixture {
  if (accepted === null) throw new Error('the mixture was not accepted')
  return accepted
}
export const strategyOf = (context: Context): Strategy => strategies[acceptedOf(context).config.strategy]

export const failed = (problem: Problem): Change => ({ end: { kind: 'failed', problem } })
export const cancelled = (_: Context): Change => ({ end: { kind: 'cancelled' } })
export const stopped = (_: Context): Change => failed(new Problem('service_unavailable'))
/** The time ran out, and nothing can replace the missing answer. */
export const outOfTime = (_: Context): Change => failed(new Problem('service_unavailable', { detail: 'Out of time' }))
export const broken = (_: Context): Change => failed(new Problem('internal_error'))

export function checked({ request }: Context): Change {
  const result = checkMixture(request)
  if (result.kind === 'refused') return { ...failed(result.problem), config: result.config }
  const { accepted } = result
  return { accepted, config: accepted.config }
}

/** The sub-calls of experts without a node end before anything is called. */
export const planMade = (planned: readonly PlannedExpert[]): Change => ({
  planned,
  results: planned.map(({ kind }) => (kind === 'no_node' ? { status: 'no_node', call: null } : null)),
})

export const dispatchedTo = (
  { dispatched }: Context,
  { index, call }: MixtureEvent & { type: 'subCall.dispatched' },
): Change => ({
  dispatched: new Map(dispatched).set(index, call),
})

/** A sub-call whose answer is empty or unusable has failed (§7, status mapping). */
function judged(result: SubCallResult, accepts: Strategy['accepts']): SubCallResult {
  return result.status === 'ok' && !accepts(result.choice.message)
    ? { status: 'upstream_error', call: result.call }
    : result
}

export function subCallSettled(
  context: Context,
  { index, result }: MixtureEvent & { type: 'subCall.settled' },
): Change {
  if (index === aggregatorIndex) return { aggregator: judged(result, isAnswer) }
  const known = judged(result, strategyOf(context).accepts)
  return { results: context.results.map((old, at) => (at === index && old === null ? known : old)) }
}

const late = ({ dispatched }: Context, index: number): SubCallResult => ({
  status: 'upstream_error',
  call: dispatched.get(index) ?? null,
})

/** An expert that has not answered by the deadline has failed. */
export const expertsLate = (context: Context): Change => ({
  results: context.results.map((result, at) => result ?? late(context, at)),
})
export const aggregatorLate = (context: Context): Change => ({ aggregator: late(context, aggregatorIndex) })

export const allSettled = ({ results }: Context) => results.every((result) => result !== null)

const survivors = (context: Context) => candidatesOf(acceptedOf(context).config, context.results)
export const quorumMissed = (context: Context) => survivors(context).length < acceptedOf(context).config.minExperts

export function quorumFailure(context: Context): Change {
  const { experts, minExperts } = acceptedOf(context).config
  const detail = `${survivors(context).length} of ${experts.length} experts answered; min_experts is ${minExperts}`
  const trace = traceOf(reportOf(context))
  return failed(
    new Problem('mixture_quorum_not_met', {
      detail,
      retryAfterSeconds: quorumRetrySeconds,
      metadata: { mixture: trace },
    }),
  )
}

function succeededWith(result: SubCallResult | null | undefined): MixtureEnd {
  if (result?.status !== 'ok') throw new Error('a winner without an answer')
  return { kind: 'succeeded', choice: result.choice, call: result.call }
}

function chosen(context: Context, choose: (candidates: readonly [Candidate, ...Candidate[]]) => Candidate): Change {
  const candidates = survivors(context)
  if (!isSome(candidates)) throw new Error('a quorum without an answer')
  return { end: succeededWith(context.results[choose(candidates).index]) }
}

export function selected(context: Context): Change {
  const strategy = strategyOf(context)
  if (strategy.kind !== 'selecting') throw new Error('the strategy does not select')
  return chosen(context, strategy.select)
}

/** The aggregator's answer, or instead the surviving answer with the highest weight (degraded). */
export const aggregated = (context: Context): Change =>
  context.aggregator?.status === 'ok' ? { end: succeededWith(context.aggregator) } : chosen(context, topWeighted)

export const expertInput = (context: Context, index: number): SubCallInput => {
  const { requestId } = context
  const accepted = acceptedOf(context)
  const planned = context.planned[index] ?? { kind: 'no_node' }
  return { requestId, accepted, model: accepted.config.experts[index]?.model ?? '', role: 'expert', index, planned }
}

/** The reasoning of a model is not part of its answer. */
export const aggregatorInput = (context: Context): SubCallInput => {
  const { requestId } = context
  const accepted = acceptedOf(context)
  const answers = survivors(context).map(({ message }) => withoutThinking(answerText(message)).trim())
  return { requestId, accepted, model: accepted.config.aggregator ?? '', role: 'aggregator', answers }
}

export function reportOf({ config, results, aggregator, end }: Context): MixtureReport {
  return {
    end: end ?? { kind: 'failed', problem: new Problem('internal_error') },

    config,
    experts: results.filter((result) => result !== null),
    aggregator,
  }
}
