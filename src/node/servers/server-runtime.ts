import { Problem } from '../../errors.ts'
import type { RuntimeId } from '../../ids.ts'
import { takesCalls } from '../../machines/charts/model-server.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import type { AgentRuntime } from '../../protocol/wire/nodes/agent.ts'
import type { RuntimeKind } from '../../protocol/wire/nodes/node.ts'
import type { RuntimeModel } from '../../runtimes/runtime.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import { type LocalRuntime, type RuntimeCall, type RuntimeTimes, WatchedRuntime } from '../runtimes/local-runtime.ts'
import { isReady, type ModelServer } from './model-server.ts'
import type { ModelServers } from './model-servers.ts'

export interface ServerRuntimeOptions {
  readonly runtimeId: RuntimeId
  readonly servers: ModelServers
  readonly server: ModelServer
  readonly times: RuntimeTimes
  readonly changed: () => void
}

/** A model server that the agent itself starts, as a runtime of this computer: it exists also while it is not in memory. */
export class ServerRuntime implements LocalRuntime {
  readonly runtimeId: RuntimeId
  readonly builtIn = false
  /** null while no process of it listens. */
  private watched: WatchedRuntime | null = null
  private kindBefore: RuntimeKind = 'other'
  private contextBefore: number | null = null
  private slotsBefore: number | null = null

  constructor(private readonly options: ServerRuntimeOptions) {
    this.runtimeId = options.runtimeId
    options.servers.onChange(() => this.follow())
  }

  get kind(): RuntimeKind {
    return this.known?.kind ?? this.kindBefore
  }

  /** A cold one is ready, too: the first call loads it. */
  get state(): AgentRuntime['state'] {
    return this.options.server.state === 'failed' ? 'down' : 'ready'
  }

  get models(): readonly RuntimeModel[] {
    const { server, servers } = this.options
    const { model, state, loadingSinceMs } = server
    const ranking = this.known?.models[0]?.ranking
    return [
      {
        id: model.id,
        contextLength: this.known?.models[0]?.contextLength ?? this.contextBefore,
        cacheTokens: this.known?.models[0]?.cacheTokens ?? null,
        ready: state !== 'failed',
        // One that drains is about to leave: who comes now waits for it as for a cold one.
        loaded: takesCalls(state),
        loadingSinceMs,
        memoryMb: model.memory_mb,
        evicts: servers.evicts(server),
        serverState: state,
        ...(model.modality === undefined ? {} : { modality: model.modality }),
        ...(ranking === undefined ? {} : { ranking }),
      },
    ]
  }

  get slotsTotal(): number | null {
    return this.options.server.model.slots ?? this.known?.slotsTotal ?? this.slotsBefore
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
    const { model, state } = this.options.server
    return state === 'failed' ? `The server of ${model.id} has failed, and it is started again later.` : null
  }

  get transport(): NodeTransport | null {
    return this.watched?.transport ?? null
  }

  get inFlight(): number {
    return this.options.server.inFlight
  }

  begin(): RuntimeCall {
    const call = this.options.server.begin()
    return {
      opened: async (signal) => {
        await call.opened(signal)
        // What its kind is decides how it is asked.
        if (this.known === null) await this.watched?.poll()
        // Only the server's own answer shows how it ranks. Before the first answer it is unavailable, not unable.
        if (this.known === null && this.options.server.model.modality === 'rerank') {
          throw new Problem('runtime_unavailable')
        }
      },
      end: call.end,
    }
  }

  tell(wish: ModelWishName): boolean {
    this.options.server.send(wish === 'load' ? 'load.asked' : 'unload.asked')
    return true
  }

  stop(): void {
    this.watched?.stop()
    this.watched = null
  }

  /** Its last answer; null before the first. */
  private get known(): WatchedRuntime | null {
    return this.watched?.state === 'ready' ? this.watched : null
  }

  private follow(): void {
    const { server, runtimeId, times, changed } = this.options
    if (!isReady(server.state)) this.stop()
    else if (this.watched === null) {
      this.watched = new WatchedRuntime({
        runtimeId,
        url: `http://127.0.0.1:${server.port}`,
        apiKey: null,
        times,
        onChange: () => this.heard(),
        ...(server.model.modality === 'rerank' ? { ranker: { scoreKind: null } } : {}),
      })
      void this.watched.poll()
    }
    changed()
  }

  /** Remembered for when it is not in memory. */
  private heard(): void {
    const { known } = this
    if (known !== null) {
      this.kindBefore = known.kind
      this.contextBefore = known.models[0]?.contextLength ?? null
      this.slotsBefore = known.slotsTotal
    }
    this.options.changed()
  }
}
