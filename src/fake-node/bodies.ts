import type { Answer, ChatRequest } from './answer.ts'
import type { Suffered } from './faults.ts'
import type { Exchange } from './http-connection.ts'

export interface ChatCall {
  readonly exchange: Exchange
  readonly request: ChatRequest
  readonly answer: Answer
  readonly faults: Suffered
  /** Time the simulated model spends before its first token, ms. */
  readonly prefillMs: number
  readonly serial: number
  /** Pauses for this long; false when the exchange ended meanwhile. */
  pause(ms: number): Promise<boolean>
  /** Counts a content chunk that was handed to the kernel. */
  sent(): void
}

export const jsonHeaders = { 'content-type': 'application/json' }

export function errorBody(status: number, message: string): string {
  const type = status === 429 ? 'rate_limit_error' : status < 500 ? 'invalid_request_error' : 'server_error'
  return JSON.stringify({ error: { message, type, param: null, code: `fake_${status}` } })
}

/** Keys and values that must never reach a client (§5); each carries the word a test can look for. */
const leakedWord = 'fake-leak'
export const leaked = {
  model: `/srv/${leakedWord}/models/weights.gguf`,
  choice: { matched_stop: leakedWord, stop_reason: leakedWord },
  body: {
    system_fingerprint: `fp_${leakedWord}`,
    timings: { prompt_ms: 1, host: leakedWord },
    __verbose: { prompt: leakedWord },
    prompt_logprobs: leakedWord,
  },
}
