import { Problem } from '../../errors.ts'
import type { RuntimeId } from '../../ids.ts'
import { takesCalls } from '../../machines/charts/model-server.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import { type AgentRuntime, modelLogLinesMax } from '../../protocol/wire/nodes/agent.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import type { CacheHeld, RuntimeModel } from '../../runtimes/runtime.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import {
  type AskedServer,
  type LocalRuntime,
  type RuntimeCall,
  type RuntimeTimes,
  WatchedRuntime,
} from '../runtimes/local-runtime.ts'
import { lastLines } from './last-lines.ts'
import { isReady, type ModelServer } from './model-server.ts'
import type { ModelServers } from './model-servers.ts'
import { memoryOf, memorySum, type RequestChange } from './models-file.ts'

export interface ServerRuntimeOptions {
  readonly runtimeId: RuntimeId
  readonly servers: ModelServers
  /** Its id in `models.json`. */
  readonly modelId: string
  readonly times: RuntimeTimes
  readonly changed: () => void
}

/** What is stripped is replaced by nothing, and what is set counts more. */
const changesOf = ({ set = {}, strip = [] }: RequestChange = {}) => ({
  ...Object.fromEntries(strip.map((name) => [name, undefined])),
  ...set,
})

/** A model server that the agent itself starts, as a runtime of this computer: it exists also while it is not in memory. */
export class ServerRuntime implements LocalRuntime {
  readonly runtimeId: RuntimeId
  readonly builtIn = false
  /** null while no process of it listens. */
  private watched: WatchedRuntime | null = null
  /** Of entries that were edited, while they work. */
  private retired: readonly { readonly server: ModelServer; readonly watched: WatchedRuntime }[] = []
  private kindBefore: RuntimeKind = 'other'
  private contextBefore: number | null = null
  private slotsBefore: number | null = null
  /** Of the entry as it is now; the last one after its end. */
  private server: ModelServer
  private readonly unfollow: () => void

  constructor(private readonly options: ServerRuntimeOptions) {
    const { runtimeId, servers, modelId } = options
    this.runtimeId = runtimeId
    const server = servers.byModel(modelId)
    if (server === undefined) throw new Error(`no model ${modelId}`)
    this.server = server
    this.unfollow = servers.onChange(() => this.follow())
  }

  get kind(): RuntimeKind {
    return this.known?.kind ?? this.kindBefore
  }

  /** A cold one is ready, too: the first call loads it. */
  get state(): AgentRuntime['state'] {
    return this.server.state === 'failed' ? 'down' : 'ready'
  }

  /** The model of the entry, then its profiles: other names with requests of their own, on the same server. */
  get models(): readonly RuntimeModel[] {
    const { profiles = [] } = this.server.model
    const own = this.model
    return [own, ...profiles.map(({ id }) => ({ ...own, id }))]
  }

  private get model(): RuntimeModel {
    const { servers } = this.options
    const { server, known } = this
    const { model, state, loadingSinceMs } = server
    const ranking = known?.models[0]?.ranking
    const residentMb = servers.residentMb(server)
    return {
      id: model.id,
      contextLength: known?.models[0]?.contextLength ?? this.contextBefore,
      cacheTokens: known?.models[0]?.cacheTokens ?? null,
      ready: state !== 'failed',
      // One that drains is about to leave: who comes now waits for it as for a cold one.
      loaded: takesCalls(state),
      loadingSinceMs,
      ...(model.sleep === undefined ? {} : { dozing: server.sleeps || state === 'falling' || state === 'waking' }),
      memoryMb: memorySum(model),
      ...(model.memory === undefined ? {} : { deviceMb: memoryOf(model) }),
      ...(residentMb === undefined ? {} : { residentMb }),
      ...(model.group === undefined ? {} : { group: model.group }),
      ...(model.pinned === true ? { pinned: model.pinned } : {}),
      evicts: servers.evicts(server),
      serverState: state,
      ...(model.modality === undefined ? {} : { modality: model.modality }),
      ...(ranking === undefined ? {} : { ranking }),
    }
  }

  get slotsTotal(): number | null {
    return this.server.model.slots ?? this.known?.slotsTotal ?? this.slotsBefore
  }

  get slotsFree(): number | null {
    const { slotsTotal } = this
    return slotsTotal === null ? null : Math.max(0, slotsTotal - this.inFlight)
  }

  get queueDepth(): number | null {
    return this.known?.queueDepth ?? null
  }

  get running(): number | undefined {
    return this.known?.running
  }

  get trouble(): string | null {
    const { model, state } = this.server
    return state === 'failed' ? `The server of ${model.id} has failed, and it is started again later.` : null
  }

  get transport(): NodeTransport | null {
    return this.watched?.transport ?? null
  }

  get inFlight(): number {
    return this.server.inFlight
  }

  begin(): RuntimeCall {
    const call = this.server.begin()
    return {
      opened: async (signal) => {
        await call.opened(signal)
        // What its kind is decides how it is asked.
        if (this.known === null) await this.watched?.poll()
        // Only the server's own answer shows how it ranks. Before the first answer it is unavailable, not unable.
        if (this.known === null && this.server.model.modality === 'rerank') {
          throw new Problem('runtime_unavailable')
        }
      },
      end: () => {
        call.end()
        this.closeRetired()
      },
    }
  }

  /** A pinned model stays: its owner's file says so. */
  tell(wish: ModelWishName): boolean {
    if (wish === 'unload' && this.server.model.pinned === true) return false
    this.server.send(wish === 'load' ? 'load.asked' : 'unload.asked')
    return true
  }

  /** Only where its owner's file allows to read them: a server may write what is in the requests. */
  lastLines(): readonly string[] | null {
    const { model, written } = this.server
    return model.logs === true ? lastLines(written ?? '', modelLogLinesMax) : null
  }

  /** Profiles share the cache of their model. */
  cacheHeld(): CacheHeld | undefined {
    return this.known?.cacheHeld(this.server.model.id)
  }

  askedFor(modelId: string): AskedServer {
    const { id, request, profiles = [] } = this.server.model
    const profile = profiles.find((one) => one.id === modelId)
    return { model: id, changed: { ...changesOf(request), ...changesOf(profile?.request) } }
  }

  stop(): void {
    this.unfollow()
    this.unwatch()
    for (const { watched } of this.retired) watched.stop()
  }

  /** Calls that run at the server of before end there. */
  private retire(): void {
    if (this.watched !== null) this.retired = [...this.retired, { server: this.server, watched: this.watched }]
    this.watched = null
    this.closeRetired()
  }

  private closeRetired(): void {
    if (this.retired.length === 0) return
    const done = this.retired.filter(({ server }) => server.inFlight === 0)
    this.retired = this.retired.filter((each) => !done.includes(each))
    for (const { watched } of done) watched.stop()
  }

  private unwatch(): void {
    this.watched?.stop()
    this.watched = null
  }

  /** Its last answer; null before the first. */
  private get known(): WatchedRuntime | null {
    return this.watched?.state === 'ready' ? this.watched : null
  }

  private follow(): void {
    const { servers, modelId, runtimeId, times, changed } = this.options
    const server = servers.byModel(modelId) ?? this.server
    // Its entry was edited: another process answers from now on.
    if (server !== this.server) this.retire()
    this.server = server
    if (!isReady(server.state)) this.unwatch()
    else if (this.watched === null) {
      this.watched = new WatchedRuntime({
        runtimeId,
        url: `http://127.0.0.1:${server.port}`,
        apiKey: null,
        times,
        onChange: () => this.onStatus(),
        ...(server.model.kv_events === undefined ? {} : { kvEvents: server.model.kv_events }),
        ...(server.model.modality === 'rerank' ? { ranker: { scoreKind: null } } : {}),
      })
      void this.watched.poll()
    }
    changed()
  }

  /** Remembered for when it is not in memory. */
  private onStatus(): void {
    const { known } = this
    if (known !== null) {
      this.kindBefore = known.kind
      this.contextBefore = known.models[0]?.contextLength ?? null
      this.slotsBefore = known.slotsTotal
    }
    this.options.changed()
  }
}
