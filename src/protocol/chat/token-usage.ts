/** What one answer used, as OpenAI's `usage` says it. */
export interface TokenUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}
