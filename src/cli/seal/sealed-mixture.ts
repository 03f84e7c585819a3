import { chat } from '../../actors/operations/chat.ts'
import { SealedError } from '../../client/sealed/sealed-fetch.ts'
import { Problem } from '../../errors.ts'
import { type NodeId, type RequestId, type RuntimeId, ulid } from '../../ids.ts'
import { readMixtureConfig } from '../../machines/mixture/config.ts'
import { mixtureDeadlines } from '../../machines/mixture/deadlines.ts'
import { candidatesOf, traceOf, usageOf } from '../../machines/mixture/report.ts'
import { answerText, isAnswer, withoutThinking } from '../../machines/mixture/strategies/answer.ts'
import { strategies } from '../../machines/mixture/strategies/registry.ts'
import { type AnswerMessage, type Candidates, isSome } from '../../machines/mixture/strategies/strategy.ts'
import { topWeighted } from '../../machines/mixture/strategies/weighted.ts'
import type { MixtureConfig, MixtureReport, SubCallResult } from '../../machines/mixture/types.ts'
import { answerEvents, type BufferedAnswer } from '../../protocol/chat/completion-stream.ts'
import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { estimatePrompt } from '../../protocol/chat/token-estimate.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { wholeOf as countOf, fieldsOf, listOf, textOf } from '../../protocol/verify/given.ts'
import type { ChatMetadata, ChatRequest } from '../../protocol/wire/inference/chat.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import { mixturesSettings } from '../../settings/mixtures.ts'
import { doorHeaders } from './refusals.ts'

/** What a gateway allows if its operator has changed nothing. */
const expertsMax = mixturesSettings.SVC_MIXTURE_EXPERTS_MAX.default
const tokensMax = mixturesSettings.SVC_MIXTURE_TOKENS_MAX.default
const outputTokensDefault = mixturesSettings.SVC_MIXTURE_OUTPUT_TOKENS_DEFAULT.default
const totalMs = mixturesSettings.SVC_MIXTURE_DEADLINE_MS.default
const answerBytesMax = 64 * 1024 * 1024
const quorumRetrySeconds = 5
/** Only the model that answers gets tools (§7). */
const toolMembers = ['tools', 'tool_choice', 'parallel_tool_calls'] as const

export interface MixturePort {
  /** Sends this body sealed to an OpenAI path. Rejects as `sealedFetch` does. */
  seal(path: string, body: string, signal: AbortSignal): Promise<Response>
}

/** Whether a request asks for a mixture, which no gateway can run that cannot read it. */
export const asksForMixture = (body: unknown): boolean => fieldsOf(fieldsOf(body).svc).mixture !== undefined

/**
 * A mixture that runs here: each expert's call is sealed for a node of its own model, and the answers are put together on this computer
 * (§§7, 38). Rejects with `Problem`.
 */
export async function answerMixture(port: MixturePort, text: string, signal: AbortSignal): Promise<Response> {
  const body = chat.read(text) as ChatRequest
  const pinParam = body.svc?.node_id === undefined ? null : 'svc.node_id'
  const config = readMixtureConfig(body.svc?.mixture, { expertsMax, pinParam })
  if (config instanceof Problem) throw config
  const report = await new SealedMixture(port, body, config, signal).run()
  return answered(report, body)
}

type Succeeded = MixtureReport & { readonly end: Extract<MixtureReport['end'], { readonly kind: 'succeeded' }> }

class SealedMixture {
  private readonly startedMs = performance.now()

  constructor(
    private readonly port: MixturePort,
    private readonly body: ChatRequest,
    private readonly config: MixtureConfig,
    private readonly signal: AbortSignal,
  ) {}

  async run(): Promise<Succeeded> {
    const { config, body } = this
    const strategy = strategies[config.strategy]
    const { expertsMs } = mixtureDeadlines(body.svc?.mixture, totalMs, 0)
    const late = AbortSignal.timeout(expertsMs)
    const without = strategy.kind === 'aggregating' ? toolMembers : []
    const experts = await Promise.all(
      config.experts.map(({ model }) => this.call(model, { without, accepts: strategy.accepts }, late)),
    )
    const candidates = candidatesOf(config, experts)
    if (!isSome(candidates) || candidates.length < config.minExperts)
      throw this.quorumMissed(experts, candidates.length)
    if (strategy.kind === 'selecting') return this.ended(experts, null, strategy.select(candidates).index)
    const aggregator = await this.aggregate(candidates)
    return this.ended(experts, aggregator, topWeighted(candidates).index)
  }

  /** The aggregator's answer, else that of the expert at this place. */
  private ended(experts: readonly SubCallResult[], aggregator: SubCallResult | null, fallback: number): Succeeded {
    const winner = aggregator?.status === 'ok' ? aggregator : experts[fallback]
    if (winner?.status !== 'ok') throw new Error('a winner without an answer')
    const end = { kind: 'succeeded', choice: winner.choice, call: winner.call } as const
    return { end, config: this.config, experts, aggregator }
  }

  private quorumMissed(experts: readonly SubCallResult[], answers: number): Problem {
    const { config } = this
    const detail = `${answers} of ${experts.length} experts answered; min_experts is ${config.minExperts}`
    const problem = new Problem('mixture_quorum_not_met', { detail })
    const trace = traceOf({ end: { kind: 'failed', problem }, config, experts, aggregator: null })
    const metadata = { mixture: trace }
    return new Problem('mixture_quorum_not_met', { detail, retryAfterSeconds: quorumRetrySeconds, metadata })
  }

  private aggregate(candidates: Candidates): Promise<SubCallResult> {
    const { config, body } = this
    const strategy = strategies[config.strategy]
    if (strategy.kind !== 'aggregating') throw new Error('the strategy does not aggregate')
    const answers = candidates.map(({ message }) => withoutThinking(answerText(message)).trim())
    // How much the aggregator's model reads is its node's to know: this is the budget of a whole mixture.
    const room = tokensMax - estimatePrompt(body).textTokens - this.outputTokens
    const messages = strategy.messages({
      messages: body.messages,
      answers,
      answerTokensMax: Math.max(0, Math.floor(room / answers.length)),
      tag: crypto.getRandomValues(new Uint8Array(4)).toHex(),
    })
    const late = AbortSignal.timeout(Math.max(0, totalMs - (performance.now() - this.startedMs)))
    return this.call(config.aggregator ?? '', { without: [], accepts: isAnswer, messages }, late)
  }

  private get outputTokens(): number {
    return this.body.max_tokens ?? this.body.max_completion_tokens ?? outputTokensDefault
  }

  /** Rejects only where the client has left. */
  private async call(
    model: string,
    asked: {
      readonly without: readonly string[]
      readonly accepts: (message: AnswerMessage) => boolean
      readonly messages?: ChatRequest['messages']
    },
    late: AbortSignal,
  ): Promise<SubCallResult> {
    const { svc: _, stream: __, stream_options: ___, ...rest } = this.body
    const kept = Object.entries(rest).filter(([name]) => !asked.without.includes(name))
    const bound =
      rest.max_tokens == null && rest.max_completion_tokens == null ? { max_tokens: outputTokensDefault } : {}
    const messages = asked.messages === undefined ? {} : { messages: asked.messages }
    const body = JSON.stringify({ ...Object.fromEntries(kept), ...bound, ...messages, model, stream: false })
    const beganMs = performance.now()
    try {
      const response = await this.port.seal('/v1/chat/completions', body, AbortSignal.any([this.signal, late]))
      const answer = await foreignAnswer(response, answerBytesMax)
      if (response.status === 404 || response.status === 503) return { status: 'no_node', call: null }
      return resultOf(response.ok ? answer : null, performance.now() - beganMs, asked.accepts)
    } catch (error) {
      this.signal.throwIfAborted()
      const none =
        error instanceof SealedError && (error.fault === 'no_node' || error.status === 404 || error.status === 503)
      return { status: none ? 'no_node' : 'upstream_error', call: null }
    }
  }
}

function resultOf(answer: unknown, latencyMs: number, accepts: (message: AnswerMessage) => boolean): SubCallResult {
  const { choices, usage, svc } = fieldsOf(answer)
  const [choice] = listOf(choices).map(fieldsOf)
  if (choice === undefined) return { status: 'upstream_error', call: null }
  const [facts, used] = [fieldsOf(svc), fieldsOf(usage)]
  const tokens = (name: string) => Math.max(0, countOf(used[name]))
  const counts = { prompt_tokens: tokens('prompt_tokens'), completion_tokens: tokens('completion_tokens') }
  const call = {
    requestId: (textOf(facts.request_id) ?? '') as RequestId,
    // A sealed answer does not name its node.
    nodeId: '' as NodeId,
    runtimeId: (textOf(facts.runtime_id) ?? '') as RuntimeId,
    runtimeKind: (textOf(facts.runtime_kind) ?? 'other') as RuntimeKind,
    usage: { ...counts, total_tokens: counts.prompt_tokens + counts.completion_tokens },
    usageEstimated: facts.usage_estimated === true,
    receiptHash: '',
    latencyMs,
  }
  const message = fieldsOf(choice.message)
  if (!accepts(message)) return { status: 'error', call }
  const { logprobs, finish_reason: reason } = choice
  const taken = { message, finish_reason: textOf(reason) ?? 'stop', ...(logprobs == null ? {} : { logprobs }) }
  return { status: 'ok', choice: taken, call }
}

function answered(report: Succeeded, body: ChatRequest): Response {
  const { end, config, experts, aggregator } = report
  const { message, finish_reason: finishReason, logprobs } = end.choice
  const { usage, estimated } = usageOf([...experts, aggregator])
  const trace = traceOf(report)
  const latencyMs = Math.round(end.call.latencyMs)
  // The hash of its receipt is in the gateway's records alone.
  const metadata = {
    ...{ runtime_id: end.call.runtimeId, runtime_kind: end.call.runtimeKind },
    ...{ latency_ms: latencyMs, ttft_ms: latencyMs, request_id: end.call.requestId },
    ...(estimated ? { usage_estimated: true } : {}),
    ...(trace === null ? {} : { mixture: trace }),
  } as ChatMetadata
  const { include_usage: separate } = (body.stream_options ?? {}) as { readonly include_usage?: unknown }
  const answer: BufferedAnswer = {
    identity: {
      id: chat.idPrefix + ulid(),
      created: Math.floor(Date.now() / 1_000),
      model: config?.aggregator ?? body.model,
    },
    ...{ message, finishReason, usage, metadata, separateUsage: separate === true },
    ...(logprobs === undefined ? {} : { logprobs }),
  }
  if (body.stream !== true) return Response.json(wholeOf(answer), { headers: doorHeaders })
  return new Response([...answerEvents(answer)].join(''), { headers: { ...doorHeaders, ...eventStreamHeaders } })
}

function wholeOf({ identity, message, finishReason, logprobs, usage, metadata }: BufferedAnswer): object {
  const choice = { index: 0, message, finish_reason: finishReason, ...(logprobs === undefined ? {} : { logprobs }) }
  return { ...identity, object: 'chat.completion', choices: [choice], usage, svc: metadata }
}
