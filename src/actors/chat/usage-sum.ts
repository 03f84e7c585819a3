import { type TokenUsage, withDetails } from '../../protocol/chat/token-usage.ts'
import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import type { Exchange } from './exchange.ts'

/** null: one of them does not tell. */
function sumOf(usages: readonly TokenUsage[], of: (usage: TokenUsage) => number | undefined): number | null {
  let sum = 0
  for (const usage of usages) {
    const tokens = of(usage)
    if (tokens === undefined) return null
    sum += tokens
  }
  return sum
}

/** A detail that one of them lacks is not known of the sum. */
export function usageSum(usages: readonly TokenUsage[]): TokenUsage {
  const prompt = sumOf(usages, (usage) => usage.prompt_tokens) ?? 0
  const completion = sumOf(usages, (usage) => usage.completion_tokens) ?? 0
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  const cached = sumOf(usages, ({ cached_tokens: tokens }) => tokens)
  const reasoning = sumOf(usages, ({ reasoning_tokens: tokens }) => tokens)
  return withDetails(usage, cached, reasoning)
}

/** `svc` of one answer that several calls gave. */
export type JoinedMetadata = ChatMetadata & { readonly receipt_hashes: readonly string[] }

/** Under the request's own id. `told`: what the parts say, in their order. */
export function metadataOf({ command }: Exchange, told: readonly ChatMetadata[]): JoinedMetadata {
  return {
    ...(told[0] as ChatMetadata),
    latency_ms: Math.round(performance.now() - command.startedMs),
    request_id: command.requestId,
    ...(told.some(({ usage_estimated: estimated }) => estimated === true) ? { usage_estimated: true } : {}),
    ...(told.some(({ external }) => external === true) ? { external: true } : {}),
    receipt_hashes: told.map(({ receipt_hash: hash }) => hash),
  }
}
