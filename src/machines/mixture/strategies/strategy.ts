import type { ChatRequest } from '../../../protocol/wire/inference/chat.ts'

/** The message of an answer, exactly as the model wrote it. */
export type AnswerMessage = Readonly<Record<string, unknown>>

/** A surviving answer of an expert. */
export interface Candidate {
  /** The index of its expert. Candidates come in this order. */
  readonly index: number
  readonly weight: number
  readonly message: AnswerMessage
}
export type Candidates = readonly [Candidate, ...Candidate[]]
export const isSome = (candidates: readonly Candidate[]): candidates is Candidates => candidates.length > 0

interface StrategyRules {
  /** The default of `min_experts`. */
  readonly quorumDefault: (experts: number) => number
  /** Returns false if the message is no answer under this strategy. Its expert has then failed (§7). */
  readonly accepts: (message: AnswerMessage) => boolean
}

/** Returns one of the answers verbatim. */
export interface SelectingStrategy extends StrategyRules {
  readonly kind: 'selecting'
  /** The state of the strategy inside `combining`. */
  readonly state: string
  readonly select: (candidates: Candidates) => Candidate
}

export interface AggregationInput {
  readonly messages: ChatRequest['messages']
  /** Texts of the surviving answers, in the order of their experts. */
  readonly answers: readonly string[]
  /** The largest number of tokens of each answer. Longer ones are cut. */
  readonly answerTokensMax: number
  /** Eight random hexadecimal digits, unknown to every expert. */
  readonly tag: string
}

/** Asks the aggregator, which alone gets the tools. */
export interface AggregatingStrategy extends StrategyRules {
  readonly kind: 'aggregating'
  readonly state: string
  /** The aggregator's conversation. */
  readonly messages: (input: AggregationInput) => ChatRequest['messages']
  /** The tokens of the prompt in addition to the request's own and the answers. */
  readonly promptOverhead: number
}

export type Strategy = SelectingStrategy | AggregatingStrategy
