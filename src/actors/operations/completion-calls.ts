import { Problem } from '../../errors.ts'
import type { ChunkIdentity } from '../../protocol/chat/chunk-reader.ts'
import { type PromptEstimate, textWeight, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import { CallStream } from '../../protocol/completions/call-stream.ts'
import { likeliest } from '../../protocol/completions/likeliest.ts'
import { type TextAnswer, type TextChoice, textWeightOf } from '../../protocol/completions/text-completion.ts'
import { reportsAsked } from '../../protocol/dialects/members/server-reports.ts'
import { cutMembers } from '../../protocol/json/json-members.ts'
import type { Json } from '../../protocol/json/json-object.ts'
import { type CompletionRequest, completionCallsMax } from '../../protocol/wire/inference/completions.ts'
import type { CallPlan, WholeAnswer } from './operation.ts'

export type CompletionAnswer = WholeAnswer & TextAnswer

/** A text, or the tokens of one. */
type OnePrompt = string | readonly number[]

/** The prompts one by one. A list of numbers is one prompt. */
export function promptsOf({ prompt }: CompletionRequest): readonly OnePrompt[] {
  if (typeof prompt === 'string') return [prompt]
  return typeof prompt[0] === 'number' ? [prompt as number[]] : (prompt as OnePrompt[])
}

/** Times that each prompt is asked: of `best_of` answers `n` are given. */
const askedEach = ({ n, best_of: best }: CompletionRequest) => Math.max(n ?? 1, best ?? 1)
const callsOf = (body: CompletionRequest) => promptsOf(body).length * askedEach(body)

function refuseMixed({ prompt }: CompletionRequest): void {
  if (typeof prompt === 'string') return
  const kindOf = (item: unknown) => (Array.isArray(item) ? 'tokens' : typeof item)
  const kind = kindOf(prompt[0])
  if (prompt.every((item) => kindOf(item) === kind)) return
  const detail = 'prompt: all items of a list must be of one kind: texts, tokens, or lists of tokens'
  throw new Problem('invalid_request', { param: 'prompt', detail })
}

/** What no request for several answers may say. */
export function refuseAnswers(body: CompletionRequest): void {
  refuseMixed(body)
  const { n, best_of: best, stream } = body
  if (best != null && best < (n ?? 1)) {
    const detail = `best_of: must be at least n, which is ${n}, but was ${best}`
    throw new Problem('invalid_request', { param: 'best_of', detail })
  }
  if (best != null && best > 1 && stream === true) {
    const detail = 'best_of: above 1 it cannot be streamed, since all answers are compared before the best are given'
    throw new Problem('invalid_request', { param: 'best_of', detail })
  }
  if (callsOf(body) <= completionCallsMax) return
  const detail = `prompt: at most ${completionCallsMax} answers in one request, counting each prompt as often as n or best_of says`
  throw new Problem('invalid_request', { param: 'prompt', detail })
}

/** All that the calls send, for the quota and the quote; of the context each prompt has all to itself. */
export function estimateCalls(body: CompletionRequest): PromptEstimate {
  const suffix = textWeight(body.suffix ?? '')
  let tokens = 0
  let textTokens = 0
  for (const prompt of promptsOf(body)) {
    const own = wholeTokens((typeof prompt === 'string' ? textWeight(prompt) : prompt.length) + suffix)
    tokens += own
    textTokens = Math.max(textTokens, own)
  }
  return { tokens: tokens * askedEach(body), textTokens }
}

type Members = Readonly<Record<string, unknown>>

/** Each prompt as often as it is asked: those of one prompt stand together. */
class CompletionCalls implements CallPlan {
  readonly count: number
  private readonly prompts: readonly OnePrompt[]
  private readonly each: number
  private readonly given: number
  /** The client's other members, byte for byte; null: they cannot be cut out. */
  private others: readonly string[] | null | undefined

  constructor(
    private readonly text: string,
    private readonly body: CompletionRequest,
  ) {
    this.prompts = promptsOf(body)
    this.each = askedEach(body)
    this.given = body.n ?? 1
    this.count = this.prompts.length * this.each
  }

  /** More answers than are given are compared by the probabilities of their tokens. */
  private get compares(): boolean {
    return this.each > this.given
  }

  /** What one call says in the place of the client's; undefined takes a member away. */
  private members(at: number): Members {
    const { seed, logprobs, stream_options: options } = this.body as Members
    // The same seed would give the same answer again.
    const seeded = this.each > 1 && typeof seed === 'number' && seed >= 0 && Number.isSafeInteger(seed + this.each)
    return {
      prompt: this.prompts[Math.floor(at / this.each)],
      n: undefined,
      best_of: undefined,
      ...(seeded ? { seed: seed + (at % this.each) } : {}),
      ...(this.compares && !logprobs ? { logprobs: 1 } : {}),
      // The usage is told once, of all of them.
      ...(options == null ? {} : { stream_options: { ...options, include_usage: false } }),
    }
  }

  bodyOf(at: number): CompletionRequest {
    return { ...this.body, ...this.members(at) } as CompletionRequest
  }

  textOf(at: number): string {
    const members = this.members(at)
    this.others ??= cutMembers(this.text, this.body, (key) => Object.hasOwn(members, key))
    if (this.others === null) return JSON.stringify(this.bodyOf(at))
    return `{${[JSON.stringify(members).slice(1, -1), ...this.others].join(',')}}`
  }

  join(answers: readonly WholeAnswer[]): CompletionAnswer {
    const choices = answers.map((answer) => (answer as CompletionAnswer).texts[0] as TextChoice)
    const texts = this.prompts.flatMap((_, at) => this.chosen(choices.slice(at * this.each, (at + 1) * this.each)))
    return {
      texts: texts.map((choice, index) => ({ ...choice, index })),
      choices: [],
      usage: null,
      cachedTokens: null,
      timings: null,
      svc: undefined,
      outputWeight: () => textWeightOf(texts),
    }
  }

  private chosen(candidates: readonly TextChoice[]): readonly TextChoice[] {
    if (!this.compares) return candidates
    const best = likeliest(candidates, this.given)
    if (best === null) {
      const detail =
        'best_of: the node that serves this model tells no log probabilities, by which its answers are compared'
      throw new Problem('invalid_request', { param: 'best_of', detail })
    }
    const { logprobs } = this.body as Members & Json
    return logprobs == null || logprobs === false ? best.map((choice) => ({ ...choice, logprobs: null })) : best
  }

  writer(identity: ChunkIdentity, at: number): CallStream {
    return new CallStream(identity, at, reportsAsked(this.body))
  }
}

/** null: it is one prompt that is answered once. */
export const completionCalls = (text: string, body: CompletionRequest): CallPlan | null =>
  callsOf(body) > 1 ? new CompletionCalls(text, body) : null
