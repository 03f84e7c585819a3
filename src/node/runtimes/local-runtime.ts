import { Problem } from '../../errors.ts'
import type { RuntimeId } from '../../ids.ts'
import { createNodeWatch, type NodeWatch, type PollResult } from '../../polling/node-watch.ts'
import { createRuntimeProbe } from '../../polling/runtime-probe.ts'
import { isControllable, type ModelWishName, tellRuntime } from '../../polling/tell-runtime.ts'
import { type AgentRuntime, modelsPerRuntimeMax } from '../../protocol/wire/nodes/agent.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import { troubleWords } from '../../protocol/wire/nodes/trouble.ts'
import type { ScoreKind } from '../../runtimes/ranking.ts'
import { runtimeModules } from '../../runtimes/registry.ts'
import { declaredRanker } from '../../runtimes/rerank.ts'
import { type CacheHeld, modalityOf, type RuntimeModel, type RuntimeStatus } from '../../runtimes/runtime.ts'
import { isoTime } from '../../time.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import { createDirectTransport } from '../../transport/http1/direct.ts'
import { type NodeTransport, TransportError } from '../../transport/transport.ts'
import { type KvEndpoints, ReportedCaches } from '../kv-events/reported-caches.ts'

/** A model server beside the agent, or a runtime inside the agent. */
export interface LocalRuntime {
  readonly runtimeId: RuntimeId
  readonly kind: RuntimeKind
  readonly state: AgentRuntime['state']
  readonly models: readonly RuntimeModel[]
  readonly slotsTotal: number | null
  readonly slotsFree: number | null
  readonly queueDepth: number | null
  /** Requests that the server works on, from every sender; undefined: it says so by its slots, or not at all. */
  readonly running?: number | undefined
  /** Why it serves nothing, in a sentence for its operator alone, since it names an address; null: it does. */
  readonly trouble: string | null
  /** It works inside the agent, without a model server. */
  readonly builtIn: boolean
  /** The way to the server. null for a runtime inside the agent, and while no process of a model server listens. */
  readonly transport: NodeTransport | null
  /** The number of running calls. */
  readonly inFlight: number
  /** Every call begins here. It counts as running until its `end`. */
  begin(): RuntimeCall
  /**
   * Starts to load or unload a model, without waiting for it. False or absent if the server has no interface for it.
   */
  tell?(wish: ModelWishName, modelId: string): boolean
  /** The last lines that its server has written; null: they stay on this computer. Absent: the agent does not run its server. */
  lastLines?(): readonly string[] | null
  /** What of a model's prompts is in its server's cache, by the server's events. Absent, or undefined: unknown. */
  cacheHeld?(modelId: string): CacheHeld | undefined
  /** How its server is asked for one of its models. Absent: by this name, and with the request as it was sent. */
  askedFor?(modelId: string): AskedServer
  /** Ends what watches it. */
  stop?(): void
}

export interface AskedServer {
  /** The server's name of the model. */
  readonly model: string
  /** Members of a request that replace what was sent; undefined: it is left out. */
  readonly changed: Readonly<Record<string, unknown>>
}

export interface RuntimeCall {
  /**
   * Resolves when the model is in memory, which may take minutes. Rejects with `runtime_unavailable`, and with a
   * `TransportError` when the caller leaves.
   */
  opened(signal: CancelSignal): Promise<void>
  end(): void
}

/** Rejects with a `TransportError` when the caller leaves; the work goes on for the others. False where it fails. */
function unlessLeft(work: Promise<boolean>, signal: CancelSignal): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const left = () => reject(new TransportError('aborted'))
    if (signal.aborted) return left()
    signal.addEventListener('abort', left)
    const end = (done: boolean) => {
      signal.removeEventListener('abort', left)
      resolve(done)
    }
    work.then(end, () => end(false))
  })
}

/** A server that loads its models by itself. */
const openAtOnce = () => Promise.resolve()

export interface RuntimeTimes {
  readonly pollMs: number
  readonly pollTimeoutMs: number
  readonly connectTimeoutMs: number
}
export const runtimeTimes: RuntimeTimes = { pollMs: 2_000, pollTimeoutMs: 2_000, connectTimeoutMs: 5_000 }

/** After this many polls in a row without an answer the runtime is down. A refused connection counts at once. */
const failedPollsMax = 2

export interface WatchedOptions {
  readonly runtimeId: RuntimeId
  /** Base URL, with or without `/v1`. */
  readonly url: string
  readonly apiKey: string | null
  readonly times: RuntimeTimes
  readonly onChange: () => void
  /** Set if the operator says that the server reranks documents. */
  readonly ranker?: { readonly scoreKind: ScoreKind | null }
  /** Where it publishes what is in its cache, one for each rank. */
  readonly kvEvents?: readonly KvEndpoints[]
}

/** A model server on this computer or its network, which is polled regularly. */
export class WatchedRuntime implements LocalRuntime {
  readonly runtimeId: RuntimeId
  readonly builtIn = false
  readonly transport: NodeTransport
  inFlight = 0
  kind: RuntimeKind = 'other'
  state: AgentRuntime['state'] = 'down'
  models: readonly RuntimeModel[] = []
  slotsTotal: number | null = null
  queueDepth: number | null = null
  running: number | undefined = undefined
  private polledFree: number | null = null
  private failure: string | null = null
  private failures = 0
  /** Set while its server is woken. */
  private rousing: Promise<boolean> | null = null
  private readonly watch: NodeWatch
  private readonly caches: ReportedCaches

  constructor(private readonly options: WatchedOptions) {
    const { runtimeId, url, apiKey, times, kvEvents = [] } = options
    this.runtimeId = runtimeId
    this.caches = new ReportedCaches(url, kvEvents)
    this.transport = createDirectTransport({ url, apiKey, connectTimeoutMs: times.connectTimeoutMs })
    this.watch = createNodeWatch({
      probe: createRuntimeProbe(this.transport, runtimeModules),
      intervalMs: times.pollMs,
      timeoutMs: times.pollTimeoutMs,
      random: Math.random,
      onResult: async (result) => this.pollEnded(result),
    })
  }

  /** The number that the server reports, but never more than our own calls leave free. */
  get slotsFree(): number | null {
    if (this.slotsTotal === null) return this.polledFree
    const left = Math.max(0, this.slotsTotal - this.inFlight)
    return this.polledFree === null ? left : Math.min(left, this.polledFree)
  }

  begin(): RuntimeCall {
    this.inFlight++
    const end = () => {
      this.inFlight--
    }
    return { opened: (signal) => (this.dozes ? this.roused(signal) : openAtOnce()), end }
  }

  /** Its server sleeps, and answers nothing until it is woken. */
  private get dozes(): boolean {
    return this.models.some(({ dozing }) => dozing === true)
  }

  /** One order serves all calls that wait. */
  private async roused(signal: CancelSignal): Promise<void> {
    const model = this.models.find(({ dozing }) => dozing === true)
    if (model === undefined) return
    this.rousing ??= tellRuntime(this.transport, this.kind, 'load', model)
      .then(async (done) => {
        await this.watch.pollNow()
        return done === true
      })
      .finally(() => {
        this.rousing = null
      })
    if (!(await unlessLeft(this.rousing, signal))) throw new Problem('runtime_unavailable')
  }

  tell(wish: ModelWishName, modelId: string): boolean {
    const model = this.models.find(({ id }) => id === modelId)
    const removable = wish === 'unload' && model?.adapts !== undefined
    const cannot = this.kind === 'vllm' && model?.dozing === undefined && !removable
    if (model === undefined || this.state === 'down' || cannot || !isControllable(this.kind)) return false
    const looked = () => void this.watch.pollNow()
    tellRuntime(this.transport, this.kind, wish, model).then(looked, looked)
    return true
  }

  get trouble(): string | null {
    if (this.failure !== null) return `${this.options.url}: ${troubleWords(this.failure, this.options.url)}`
    if (this.models.some(({ ready }) => ready)) return null
    return `${this.options.url}: a server of the kind ${this.kind} answers, but it has no model ready.`
  }

  /** Resolves when it has answered or failed. */
  poll(): Promise<void> {
    return this.watch.pollNow()
  }

  cacheHeld(modelId: string): CacheHeld | undefined {
    return this.caches.of(modelId)
  }

  askedFor(model: string): AskedServer {
    return { model, changed: this.models.find(({ id }) => id === model)?.askedWith ?? {} }
  }

  stop(): void {
    void this.watch.stop()
    this.caches.stop()
    this.transport.close()
  }

  private pollEnded(result: PollResult): void {
    const before = this.signature()
    this.failure = result.kind === 'failed' ? result.code : null
    const status = result.kind === 'answered' ? result.reports[0]?.status : undefined
    if (status !== undefined) this.adopt(status)
    else if (result.kind === 'answered') this.goDown()
    else if (result.code === 'refused' || ++this.failures >= failedPollsMax) this.goDown()
    if (before !== this.signature()) this.options.onChange()
  }

  private adopt(polled: RuntimeStatus): void {
    const { ranker } = this.options
    const status = ranker === undefined ? polled : declaredRanker(polled, ranker.scoreKind)
    this.failures = 0
    this.kind = status.kind
    this.state = status.state
    this.models = status.models.slice(0, modelsPerRuntimeMax)
    this.slotsTotal = status.slotsTotal
    this.polledFree = status.slotsFree
    this.queueDepth = status.queueDepth
    this.running = status.running
  }

  private goDown(): void {
    this.state = 'down'
    this.models = this.models.map((model) => ({ ...model, ready: false }))
    this.polledFree = null
    this.queueDepth = null
    this.running = undefined
  }

  /** The part of the status whose changes the gateway must hear at once. The load is not in it. */
  private signature(): string {
    return JSON.stringify([this.kind, this.state, this.models])
  }
}

/** The agent itself has no route for the rest; embeddings it has sealed alone. */
const isServedHere = (model: RuntimeModel) => ['chat', 'rerank', 'embedding'].includes(modalityOf(model))

/** The facts of a model whose server the agent itself runs. */
const servedModel = ({ serverState, loadingSinceMs, memoryMb, evicts, ...model }: RuntimeModel) => ({
  ...(serverState === undefined ? {} : { server_state: serverState }),
  loading_since: loadingSinceMs == null ? null : isoTime(loadingSinceMs),
  ...(memoryMb === undefined ? {} : { memory_mb: memoryMb }),
  ...(evicts === undefined ? {} : { evicts }),
  ...(model.deviceMb === undefined ? {} : { device_mb: model.deviceMb }),
  ...(model.residentMb === undefined ? {} : { resident_mb: model.residentMb }),
  ...(model.group === undefined ? {} : { group: model.group }),
  ...(model.pinned === undefined ? {} : { pinned: model.pinned }),
})

const heldCache = (held: CacheHeld | undefined) =>
  held === undefined ? {} : { cache_held_tokens: held.tokens, cache_full: held.full }

/** The runtime as reported to the gateway. `stopping` means that the agent accepts nothing new. */
export function agentRuntime(runtime: LocalRuntime, stopping: boolean): AgentRuntime {
  return {
    runtime_id: runtime.runtimeId,
    kind: runtime.kind,
    state: runtime.state,
    models: runtime.models.filter(isServedHere).map((model) => ({
      ...heldCache(runtime.cacheHeld?.(model.id)),
      id: model.id,
      modality: modalityOf(model),
      ready: model.ready && !stopping,
      loaded: model.loaded,
      context_length: model.contextLength,
      ...(model.cacheTokens == null ? {} : { cache_tokens: model.cacheTokens }),
      ...(model.adapts === undefined ? {} : { adapts: model.adapts }),
      ...(model.dozing === undefined ? {} : { dozing: model.dozing }),
      ...(model.file === undefined ? {} : { file: model.file }),
      ...(model.memory === undefined ? {} : { memory: model.memory }),
      ...(model.serverState === undefined ? {} : servedModel(model)),
    })),
    slots_total: runtime.slotsTotal,
    slots_free: runtime.slotsFree,
    queue_depth: runtime.queueDepth,
    ...(runtime.running === undefined ? {} : { running: runtime.running }),
  }
}
