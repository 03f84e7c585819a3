import { noConfidences } from '../../confidences.ts'
import type { Problem } from '../../errors.ts'
import type { PublicChoice } from '../../protocol/chat/completion.ts'
import { nodeRefusal, refusalProblem } from '../../protocol/chat/node-refusal.ts'
import { promptTokens, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { Binding } from '../../protocol/receipts/binding.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { hourMs, isoTime } from '../../time.ts'
import type { CallSignal } from '../../transport/call-signal.ts'
import type { SignReceipt } from '../receipts/receipt-signer.ts'
import type { AskedServer, LocalRuntime, RuntimeCall } from '../runtimes/local-runtime.ts'

/** The gateway's facts about its call, for the receipt. */
export interface Order {
  readonly requestId: string
  readonly jobId: string | null
  /** The public id of the model. */
  readonly modelId: string
  /** The node class that the operator has set now. */
  readonly nodeClass: string
  readonly nodeId: string
  /** By the node's identity. */
  readonly sign: SignReceipt
  /** null: the client wants no bound receipt, or the gateway is of a version before. */
  readonly binding: Binding | null
  /** The gateway reads receipts that say when they were signed. */
  readonly timed: boolean
}

export interface ChatInput {
  readonly requestId: string
  readonly body: ChatRequest
  /** The body as it was sent. */
  readonly text: string
  readonly runtimeId: string | null
  /** null for a caller on this computer, who needs no receipt. */
  readonly order: Order | null
  readonly signal: AbortSignal
  /** Called once, when the whole answer has arrived or nothing more will come. */
  readonly ended?: () => void
}

/** A runtime that needs longer will never finish, ms. A gateway gives up much earlier. */
const callMsMax = hourMs

/** One call to a runtime. It counts as running until `release`. */
export class ChatCall {
  /** Among the open calls of the agent. */
  openPlace = -1
  /** null: its answer is a whole one, or has not begun. */
  stream: { cut(): void } | null = null
  /** Something of its answer has come. */
  spoke = false
  readonly startedMs = Date.now()
  private released = false
  private readonly deadline: ReturnType<typeof setTimeout>
  private readonly running: RuntimeCall

  constructor(
    readonly input: ChatInput,
    readonly runtime: LocalRuntime,
    readonly signal: CallSignal,
    private readonly onRelease: (call: ChatCall) => void,
  ) {
    this.running = runtime.begin()
    this.deadline = setTimeout(() => signal.abort(), callMsMax)
  }

  get modelId(): string {
    return this.input.order?.modelId ?? this.input.body.model
  }

  /** Resolves when the model is in memory. */
  opened(): Promise<void> {
    return this.running.opened(this.signal)
  }

  /** null: its server is asked as the agent was. */
  asked(): AskedServer | null {
    return this.runtime.askedFor?.(this.input.body.model) ?? null
  }

  release(): void {
    if (this.released) return
    this.released = true
    clearTimeout(this.deadline)
    this.running.end()
    this.onRelease(this)
    this.input.ended?.()
  }

  /**
   * Why the runtime refuses this request, or null if the runtime failed. `status` is null for an error inside a 200.
   */
  refusal(status: number | null, text: string): Problem | null {
    const { model } = this.input.body
    const names = { [model]: this.modelId, [this.asked()?.model ?? model]: this.modelId }
    const refusal = nodeRefusal(status, text, { names, confided: this.runtime.transport?.confided ?? noConfidences })
    return refusal === null ? null : refusalProblem(refusal)
  }

  /** The usage that the runtime reported, or an estimate, and the `svc` with the receipt. */
  conclude(
    reported: TokenUsage | null,
    outputWeight: number,
    choices: readonly PublicChoice[] | null,
  ): { readonly usage: TokenUsage; readonly svc: object } {
    const usage = reported ?? this.estimate(outputWeight)
    const { input, runtime } = this
    const svc = {
      runtime_id: runtime.runtimeId,
      runtime_kind: runtime.kind,
      request_id: input.requestId,
      ...(reported === null ? { usage_estimated: true } : {}),
      ...(input.order === null ? {} : this.receipt(input.order, usage, choices)),
    }
    return { usage, svc }
  }

  private estimate(outputWeight: number): TokenUsage {
    const prompt = promptTokens(this.input.body)
    const completion = wholeTokens(outputWeight)
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  }

  private receipt(order: Order, usage: TokenUsage, choices: readonly PublicChoice[] | null): object {
    const { runtime } = this
    const receipt = {
      issuer: 'node',
      requestId: order.requestId,
      jobId: order.jobId,
      kind: 'hosted_chat',
      nodeId: order.nodeId,
      nodeClass: order.nodeClass,
      runtimeId: runtime.runtimeId,
      runtimeKind: runtime.kind,
      modelId: order.modelId,
      promptTokens: usage.prompt_tokens,
      completionTokens: usage.completion_tokens,
      startedAt: isoTime(this.startedMs),
      completedAt: isoTime(Date.now()),
    } as const
    const bound = order.binding?.facts(this.input.body.model, choices)
    return order.sign({ ...receipt, ...bound }, order.timed)
  }
}
