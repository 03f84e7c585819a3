import { isAnswer } from '../answer.ts'
import { synthesisMessages, synthesisOverhead } from '../synthesis-prompt.ts'
import type { AggregatingStrategy } from './strategy.ts'

/** The aggregator writes one answer from all of them. */
export const synthesize: AggregatingStrategy = {
  kind: 'aggregating',
  state: 'synthesizing',
  quorumDefault: () => 1,
  accepts: isAnswer,
  messages: synthesisMessages,
  promptOverhead: synthesisOverhead,
}
