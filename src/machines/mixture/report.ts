import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { MixtureTrace, SubCallRole } from '../../protocol/wire/inference/mixture.ts'
import type { Candidate } from './strategies/strategy.ts'
import { isMetered, type MixtureConfig, type MixtureReport, type SubCallResult } from './types.ts'

/** The surviving answers, in the order of their experts. */
export function candidatesOf(config: MixtureConfig, results: readonly (SubCallResult | null)[]): readonly Candidate[] {
  return config.experts.flatMap(({ weight }, index) => {
    const result = results[index]
    return result?.status === 'ok' ? [{ index, weight, message: result.choice.message }] : []
  })
}

/** A sub-call with its role: the experts in their order, then the aggregator. */
export interface SubCallEntry {
  readonly role: SubCallRole
  readonly model: string
  readonly result: SubCallResult
}

export function subCallsOf({ config, experts, aggregator }: MixtureReport): readonly SubCallEntry[] {
  if (config === null) return []
  const entries = config.experts.flatMap(({ model }, at): readonly SubCallEntry[] => {
    const result = experts[at]
    return result === undefined ? [] : [{ role: 'expert', model, result }]
  })
  if (config.aggregator === null || aggregator === null) return entries
  return [...entries, { role: 'aggregator', model: config.aggregator, result: aggregator }]
}

/** Contains only metadata, so that no text of an expert or of the aggregator gets into it. */
export function traceOf(report: MixtureReport): MixtureTrace | null {
  if (report.config === null) return null
  const entries = subCallsOf(report)
  return {
    strategy: report.config.strategy,
    degraded: entries.some(({ result }) => result.status !== 'ok'),
    experts: entries.map(({ role, model, result: { status, call } }) => ({
      role,
      model,
      status,
      node_id: call?.nodeId ?? '',
      usage: { total_tokens: isMetered(call) ? call.usage.total_tokens : 0 },
    })),
  }
}

/** The sum over all sub-calls that used anything, failed ones included. */
export function usageOf(results: readonly (SubCallResult | null)[]): { usage: TokenUsage; estimated: boolean } {
  let prompt = 0
  let completion = 0
  let estimated = false
  for (const result of results) {
    const call = result?.call ?? null
    if (!isMetered(call)) continue
    prompt += call.usage.prompt_tokens
    completion += call.usage.completion_tokens
    estimated ||= call.usageEstimated
  }
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  return { usage, estimated }
}
