import type { ChatRequest } from '../../../protocol/wire/inference/chat.ts'

/** The message of an answer: the model's output, verbatim. */
export type AnswerMessage = Readonly<Record<string, unknown>>

/** A surviving answer of an expert. */
export interface Candidate {
  /** Of its expert; candidates come in this order. */
  readonly index: number
  readonly weight: number
  readonly message: AnswerMessage
}
export type Candidates = readonly [Candidate, ...Candidate[]]
export const isSome = (candidates: readonly Candidate[]): candidates is Candidates => candidates.length > 0

interface StrategyRules {
  /** `min_experts` where the request has none. */
  readonly quorumDefault: (experts: number) => number
  /** False for what is no answer under this strategy: its expert has then failed (§7). */
  readonly accepts: (message: AnswerMessage) => boolean
}

/** Returns one of the answers verbatim. */
export interface SelectingStrategy extends StrategyRules {
  readonly kind: 'selecting'
  /** Its state inside `combining`. */
  readonly state: string
  readonly select: (candidates: Candidates) => Candidate
}

export interface AggregationInput {
  readonly messages: ChatRequest['messages']
  /** Texts of the surviving answers, in the order of their experts. */
  readonly answers: readonly string[]
  /** Each answer is cut to so many tokens. */
  readonly answerTokensMax: number
  /** Eight random hexadecimal digits, unknown to every expert. */
  readonly tag: string
}

/** Asks the aggregator; tools go to it alone. */
export interface AggregatingStrategy extends StrategyRules {
  readonly kind: 'aggregating'
  readonly state: string
  /** The aggregator's conversation. */
  readonly messages: (input: AggregationInput) => ChatRequest['messages']
  /** Tokens of the prompt beside the request's own and the answers. */
  readonly promptOverhead: number
}

export type Strategy = SelectingStrategy | AggregatingStrategy
