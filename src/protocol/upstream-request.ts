import type { ChatRequest } from './wire/chat.ts'

/** Never sent to a node: nodes may be third parties (data minimisation, decisions §5). */
const stripped = ['svc', 'user', 'safety_identifier', 'metadata', 'store', 'prompt_cache_key', 'service_tier'] as const

/** The body a node gets, but for `model`, which differs from route to route. */
export interface UpstreamBody {
  forModel(upstreamModelId: string): string
}

/**
 * `ceiling`: `max_tokens` to inject where the request has none, so that what a quota reserved is a true bound.
 * Every other field goes through as it came.
 */
export function upstreamBody(body: ChatRequest, ceiling: number | null): UpstreamBody {
  const out: Record<string, unknown> = { ...body }
  for (const key of stripped) if (key in out) delete out[key]
  // vLLM and llama.cpp send usage only when asked (decisions §6).
  if (body.stream === true) out.stream_options = { ...body.stream_options, include_usage: true }
  if (ceiling !== null) out.max_tokens = ceiling
  return {
    forModel(upstreamModelId) {
      out.model = upstreamModelId
      return JSON.stringify(out)
    },
  }
}
