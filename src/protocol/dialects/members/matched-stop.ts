import type { Json } from '../../json/json-object.ts'

/** Under it a choice keeps what its server says it ended at; no writer of JSON sees it. */
export const matchedStop: unique symbol = Symbol('matchedStop')

export interface Stopped {
  readonly [matchedStop]?: string
}

const longestUnits = 4_096

/** By vLLM's name or SGLang's, whose numbers are tokens of the model; nothing where the server says no text. */
export function stoppedAt({ stop_reason: ofVllm, matched_stop: ofSglang }: Json): Stopped {
  const said = ofVllm ?? ofSglang
  return typeof said === 'string' && said !== '' && said.length <= longestUnits ? { [matchedStop]: said } : {}
}
