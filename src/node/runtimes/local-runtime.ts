import type { RuntimeId } from '../../ids.ts'
import { createNodeWatch, type NodeWatch, type PollResult } from '../../polling/node-watch.ts'
import { createRuntimeProbe } from '../../polling/runtime-probe.ts'
import { type AgentRuntime, modelsPerRuntimeMax } from '../../protocol/wire/nodes/agent.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import type { ScoreKind } from '../../runtimes/ranking.ts'
import { runtimeModules } from '../../runtimes/registry.ts'
import { declaredRanker } from '../../runtimes/rerank.ts'
import { modalityOf, type RuntimeModel, type RuntimeStatus } from '../../runtimes/runtime.ts'
import { createDirectTransport } from '../../transport/direct.ts'
import type { NodeTransport } from '../../transport/transport.ts'

/** A model server beside the agent, or one that is part of it. */
export interface LocalRuntime {
  readonly runtimeId: RuntimeId
  readonly kind: RuntimeKind
  readonly state: AgentRuntime['state']
  readonly models: readonly RuntimeModel[]
  readonly slotsTotal: number | null
  readonly slotsFree: number | null
  readonly queueDepth: number | null
  /** The way to it; null for one that is part of the agent. */
  readonly transport: NodeTransport | null
  /** Calls under way; whoever calls counts. */
  inFlight: number
}

export interface RuntimeTimes {
  readonly pollMs: number
  readonly pollTimeoutMs: number
  readonly connectTimeoutMs: number
}
export const runtimeTimes: RuntimeTimes = { pollMs: 2_000, pollTimeoutMs: 2_000, connectTimeoutMs: 5_000 }

/** So many polls in a row without an answer, and it counts as down; a refused connection says so at once. */
const failedPollsMax = 2

export interface WatchedOptions {
  readonly runtimeId: RuntimeId
  /** Base URL, with or without `/v1`. */
  readonly url: string
  readonly apiKey: string | null
  readonly times: RuntimeTimes
  readonly onChange: () => void
  /** The operator says that it ranks. */
  readonly ranker?: { readonly scoreKind: ScoreKind | null }
}

/** A model server at an address of this machine or its network, asked how it is every so often. */
export class WatchedRuntime implements LocalRuntime {
  readonly runtimeId: RuntimeId
  readonly transport: NodeTransport
  inFlight = 0
  kind: RuntimeKind = 'other'
  state: AgentRuntime['state'] = 'down'
  models: readonly RuntimeModel[] = []
  slotsTotal: number | null = null
  queueDepth: number | null = null
  private polledFree: number | null = null
  private failures = 0
  private readonly watch: NodeWatch

  constructor(private readonly options: WatchedOptions) {
    const { runtimeId, url, apiKey, times } = options
    this.runtimeId = runtimeId
    this.transport = createDirectTransport({ url, apiKey, connectTimeoutMs: times.connectTimeoutMs })
    this.watch = createNodeWatch({
      probe: createRuntimeProbe(this.transport, runtimeModules),
      intervalMs: times.pollMs,
      timeoutMs: times.pollTimeoutMs,
      random: Math.random,
      onResult: async (result) => this.heard(result),
    })
  }

  /** By its own word, and never more than our own calls leave. */
  get slotsFree(): number | null {
    if (this.slotsTotal === null) return this.polledFree
    const left = Math.max(0, this.slotsTotal - this.inFlight)
    return this.polledFree === null ? left : Math.min(left, this.polledFree)
  }

  /** Resolves when it has answered or failed. */
  poll(): Promise<void> {
    return this.watch.pollNow()
  }

  stop(): void {
    this.watch.stop()
    this.transport.close()
  }

  private heard(result: PollResult): void {
    const before = this.signature()
    const status = result.kind === 'answered' ? result.reports[0]?.status : undefined
    if (status !== undefined) this.adopt(status)
    else if (result.kind === 'answered') this.goDown()
    else if (result.code === 'refused' || ++this.failures >= failedPollsMax) this.goDown()
    if (before !== this.signature()) this.options.onChange()
  }

  private adopt(heard: RuntimeStatus): void {
    const { ranker } = this.options
    const status = ranker === undefined ? heard : declaredRanker(heard, ranker.scoreKind)
    this.failures = 0
    this.kind = status.kind
    this.state = status.state
    this.models = status.models.slice(0, modelsPerRuntimeMax)
    this.slotsTotal = status.slotsTotal
    this.polledFree = status.slotsFree
    this.queueDepth = status.queueDepth
  }

  private goDown(): void {
    this.state = 'down'
    this.models = this.models.map((model) => ({ ...model, ready: false }))
    this.polledFree = null
    this.queueDepth = null
  }

  /** What others must hear of at once; the load is not. */
  private signature(): string {
    return JSON.stringify([this.kind, this.state, this.models])
  }
}

/** The agent itself has no route for the rest. */
const isServedHere = (model: RuntimeModel) => ['chat', 'rerank'].includes(modalityOf(model))

/** As the gateway hears of it. `stopping`: nothing new is taken any more. */
export function agentRuntime(runtime: LocalRuntime, stopping: boolean): AgentRuntime {
  return {
    runtime_id: runtime.runtimeId,
    kind: runtime.kind,
    state: runtime.state,
    models: runtime.models.filter(isServedHere).map((model) => ({
      id: model.id,
      modality: modalityOf(model),
      ready: model.ready && !stopping,
      loaded: model.loaded,
      context_length: model.contextLength,
    })),
    slots_total: runtime.slotsTotal,
    slots_free: runtime.slotsFree,
    queue_depth: runtime.queueDepth,
  }
}
