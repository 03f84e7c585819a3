/** What one answer used, as OpenAI's `usage` says it. */
export interface TokenUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  /** Part of the prompt that the node found in its cache; absent if the node does not report it. */
  readonly cached_tokens?: number
  /** Part of the completion that is reasoning; absent if the node does not report it. */
  readonly reasoning_tokens?: number
}

/** A count as a node reports it; null if it is no number of tokens. */
export const tokenCount = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= 2_147_483_647 ? value : null

/** `usage` with these details, each at most what it is a part of. null: not reported. */
export function withDetails(
  { prompt_tokens, completion_tokens, total_tokens }: TokenUsage,
  cached: number | null | undefined,
  reasoning: number | null | undefined,
): TokenUsage {
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    ...(cached == null ? {} : { cached_tokens: Math.min(cached, prompt_tokens) }),
    ...(reasoning == null ? {} : { reasoning_tokens: Math.min(reasoning, completion_tokens) }),
  }
}

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

/** OpenAI's `usage`, with the details that are known: of every answer, so that the usual one is one object and no more. */
export function wireUsage(usage: TokenUsage): object {
  const { prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens } = usage
  if (cached_tokens === undefined && reasoning_tokens === undefined)
    return { prompt_tokens, completion_tokens, total_tokens }
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    ...(cached_tokens === undefined ? {} : { prompt_tokens_details: { cached_tokens } }),
    ...(reasoning_tokens === undefined ? {} : { completion_tokens_details: { reasoning_tokens } }),
  }
}

/** Its text. By hand: it is written for every answer. */
export function usageText(usage: TokenUsage): string {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  const { cached_tokens: cached, reasoning_tokens: reasoning } = usage
  const ofPrompt = cached === undefined ? '' : `,"prompt_tokens_details":{"cached_tokens":${cached}}`
  const ofCompletion = reasoning === undefined ? '' : `,"completion_tokens_details":{"reasoning_tokens":${reasoning}}`
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${total}${ofPrompt}${ofCompletion}}`
}
