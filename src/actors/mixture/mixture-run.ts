import type { Grant } from '../../host/budget.ts'
import { failureName, type Log } from '../../log.ts'
import { subCallPlacement } from '../../machines/mixture/check.ts'
import {
  type AdmitOutput,
  aggregatorIndex,
  type MixtureEvent,
  type PlanInput,
  type SubCallInput,
} from '../../machines/mixture/context.ts'
import { planExperts, plannedOf } from '../../machines/mixture/plan.ts'
import { strategies } from '../../machines/mixture/strategies/registry.ts'
import type { AggregatingStrategy } from '../../machines/mixture/strategies/strategy.ts'
import type { AcceptedMixture, PlannedExpert } from '../../machines/mixture/types.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { promptTokensLeast } from '../../protocol/chat/token-estimate.ts'
import { type UpstreamBody, upstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { membersFor } from '../../runtimes/registry.ts'
import type { ChatCommand } from '../chat/chat-command.ts'
import type { Admission } from '../limits/limits.ts'
import type { AbortCause } from '../relay/attempt.ts'
import type { Span } from '../telemetry/tracing.ts'
import { SubCall, type SubCallOrder, type SubCallPort } from './mixture-sub-call.ts'

export interface MixtureCommand extends ChatCommand<ChatRequest> {
  /** The `param` of an error if the request names a node, otherwise null. */
  readonly pinParam: string | null
}

export interface MixturePort extends SubCallPort {
  readonly log: Log
  /** Eight random hexadecimal digits. */
  readonly tag: () => string
}

type Members = Readonly<Record<string, unknown>>
/** The gateway waits for the whole answer of a sub-call, whether or not the node sends it as a stream. */
const wholeAnswer: Members = { stream: false, stream_options: undefined }
/** Only the model that answers the client gets tools (§7). */
const withoutTools: Members = {
  ...wholeAnswer,
  tools: undefined,
  tool_choice: undefined,
  parallel_tool_calls: undefined,
}

/** The effects of one mixture. */
export class MixtureRun {
  private admission: Admission | null = null
  /** Among the mixtures that have not ended. */
  openPlace = -1
  private readonly running = new Set<SubCall>()
  private readonly grants: Grant[] = []
  /** The client's body is cut once for all experts. */
  private expertOrder: SubCallOrder['prepare'] | null = null
  readonly span: Span | null
  /** True while the gateway stops: calls that are aborted then are not failures of their nodes. */
  stopping = false

  constructor(
    private readonly port: MixturePort,
    readonly command: MixtureCommand,
  ) {
    this.span = command.span?.mixture(command.requestId) ?? null
  }

  /** The mixture counts as one request for rate and concurrency. */
  async admit(tokens: number, signal: AbortSignal): Promise<AdmitOutput> {
    const { access } = this.command
    const asked = this.port.limits.admit(access, access.policy.dailyTokenQuota === null ? 0 : tokens)
    const admission = asked instanceof Promise ? await asked : asked
    if (signal.aborted) admission.settle(0)
    else this.admission = admission
    return null
  }

  get headers(): Readonly<Record<string, string>> {
    return this.admission?.headers ?? {}
  }

  settle(tokens: number): void {
    this.admission?.settle(tokens)
  }

  plan({ accepted }: PlanInput): readonly PlannedExpert[] {
    const { port, command } = this
    const table = port.router.table()
    const requests = accepted.config.experts.map(({ model }) => this.expertPlacement(accepted, model))
    let again = false
    return planExperts(table, requests, (request, placement) => {
      port.decided(command, { table, request, placement }, again)
      again = true
    })
  }

  /** Returns a function that ends the sub-call early. */
  runSubCall(input: SubCallInput, tell: (event: MixtureEvent) => void): () => void {
    const { port, command } = this
    const index = input.role === 'expert' ? input.index : aggregatorIndex
    const order = input.role === 'expert' ? this.orderExpert(input) : this.orderAggregator(input)
    const dispatched: SubCallOrder['dispatched'] = (call) => tell({ type: 'subCall.dispatched', index, call })
    const kept: SubCallOrder['kept'] = (grant) => {
      if (grant !== null) this.grants.push(grant)
    }
    const subCall = new SubCall(port, command, { ...order, dispatched, kept }, this.span)
    this.running.add(subCall)
    const failed = (error: unknown) =>
      port.log.error('sub_call_failed', { request_id: command.requestId, failure: failureName(error) })
    void subCall.run(failed).then((result) => {
      if (this.running.delete(subCall)) tell({ type: 'subCall.settled', index, result })
    })
    return () => {
      if (this.running.delete(subCall)) subCall.abort(this.cause())
    }
  }

  /** The answers of the sub-calls are kept no more. */
  dropKept(): void {
    for (const grant of this.grants.splice(0)) grant.close()
  }

  private cause(): AbortCause {
    if (this.command.signal.aborted) return 'client_gone'
    return this.stopping ? 'shutdown' : 'total_timeout'
  }

  private placement(model: string, context: Parameters<typeof subCallPlacement>[2]): PlacementRequest {
    return subCallPlacement({ access: this.command.access, nowMs: Date.now() }, model, context)
  }

  private expertPlacement({ textTokens }: AcceptedMixture, model: string): PlacementRequest {
    const contextLeast = promptTokensLeast(this.command.body)
    return this.placement(model, { contextLeast, contextWanted: textTokens })
  }

  private orderExpert({
    accepted,
    model,
    planned,
  }: SubCallInput & { role: 'expert' }): Omit<SubCallOrder, 'dispatched' | 'kept'> {
    this.expertOrder ??= this.prepareExperts(accepted)
    return { placement: this.expertPlacement(accepted, model), planned, prepare: this.expertOrder }
  }

  private prepareExperts(accepted: AcceptedMixture): SubCallOrder['prepare'] {
    const aggregates = strategies[accepted.config.strategy].kind === 'aggregating'
    const changed = aggregates ? withoutTools : wholeAnswer
    const { body, upstream } = this.changedBody(accepted, changed)
    const byKind = new Map<Route['runtimeKind'], UpstreamBody>()
    return ({ modelId, runtimeKind }) => {
      const asked = { ...body, model: modelId }
      let own = byKind.get(runtimeKind)
      if (own === undefined) {
        const members = membersFor(runtimeKind, asked)
        own = members === null ? upstream : this.changedBody(accepted, { ...changed, ...members }).upstream
        byKind.set(runtimeKind, own)
      }
      return { body: asked, upstream: own }
    }
  }

  /** The aggregator's context is checked separately, because instructions and output must fit beside the answers. */
  private orderAggregator(input: SubCallInput & { role: 'aggregator' }): Omit<SubCallOrder, 'dispatched' | 'kept'> {
    const { port, command } = this
    const { accepted, model, answers } = input
    const strategy = strategies[accepted.config.strategy]
    if (strategy.kind !== 'aggregating') throw new Error('the strategy does not aggregate')
    const contextLeast = accepted.textTokens + strategy.promptOverhead + accepted.outputTokens
    const request = this.placement(model, { contextLeast, contextWanted: null })
    const table = port.router.table()
    const placement = place(table, request)
    port.decided(command, { table, request, placement }, true)
    const prepare: SubCallOrder['prepare'] = (route) => this.prepareAggregator(strategy, accepted, answers, route)
    return { placement: request, planned: plannedOf(placement), prepare }
  }

  private prepareAggregator(
    strategy: AggregatingStrategy,
    accepted: AcceptedMixture,
    answers: readonly string[],
    { modelId, runtimeKind, contextLength }: Route,
  ): ReturnType<SubCallOrder['prepare']> {
    const { port, command } = this
    // A node that does not report its context length gets at most the token budget of the whole mixture.
    const context = contextLength ?? port.config.SVC_MIXTURE_TOKENS_MAX
    const roomTokens = context - accepted.textTokens - accepted.outputTokens
    const messages = strategy.messages({
      messages: command.body.messages,
      answers,
      answerTokensMax: Math.max(0, Math.floor(roomTokens / answers.length)),
      tag: port.tag(),
    })
    const changed = { ...wholeAnswer, messages }
    const asked = { ...command.body, ...changed, model: modelId }
    const members = membersFor(runtimeKind, asked)
    return { body: asked, upstream: this.changedBody(accepted, { ...changed, ...members }).upstream }
  }

  private changedBody(accepted: AcceptedMixture, changed: Members): ReturnType<SubCallOrder['prepare']> {
    const { body, text } = this.command
    const asked = body.max_tokens ?? body.max_completion_tokens ?? null
    const ceiling = asked === null ? accepted.outputTokens : null
    const upstream = upstreamBody(text, { ...body, stream: false }, ceiling, changed)
    return { body: { ...body, ...changed }, upstream }
  }
}
