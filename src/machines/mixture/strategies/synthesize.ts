import { isAnswer } from './answer.ts'
import type { AggregatingStrategy } from './strategy.ts'
import { synthesisMessages, synthesisOverhead } from './synthesis-prompt.ts'

/** The aggregator writes one answer from all of them. */
export const synthesize: AggregatingStrategy = {
  kind: 'aggregating',
  state: 'synthesizing',
  quorumDefault: () => 1,
  accepts: isAnswer,
  messages: synthesisMessages,
  promptOverhead: synthesisOverhead,
}
