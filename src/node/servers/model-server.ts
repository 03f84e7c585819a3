import { type ActorRefFrom, createActor } from 'xstate'
import { Problem } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'
import {
  failedPauseMs,
  type ModelServerEvent,
  modelServerMachine,
  modelServerStateOf,
  takesCalls,
} from '../../machines/charts/model-server.ts'
import type { MemoryHolder } from '../../machines/plan/model-memory.ts'
import type { ModelServerState } from '../../protocol/wire/nodes/agent.ts'
import { retrySeconds, secondMs } from '../../time.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import { TransportError } from '../../transport/transport.ts'
import type { RuntimeCall } from '../runtimes/local-runtime.ts'
import { confidedTo, memoryOf, type ServedModel } from './models-file.ts'
import { freePort, healthAnswers, isTaken } from './server-address.ts'
import { answersOrder } from './server-order.ts'
import { ServerProcess } from './server-process.ts'
import type { ServerTimes } from './server-times.ts'

const startTimeoutSecondsDefault = 180

export interface ModelServerOptions {
  readonly model: ServedModel
  readonly times: ServerTimes
  /** The folder in which commands run that name none. */
  readonly cwd: string
  /** A new mark for each start. */
  readonly mark: () => string
  readonly log: Log
  /** The server has moved, or its work has changed. */
  readonly moved: (server: ModelServer) => void
}

interface Waiter {
  readonly open: () => void
  readonly refuse: () => void
}

/** It is in memory, and its server listens. */
export const isReady = (state: ModelServerState) => state.startsWith('ready.')

/** One model of `models.json`: its chart, its process, and the calls that wait for it. */
export class ModelServer {
  state: ModelServerState = 'stopped'
  /** When it entered its state, Unix ms; changes within `ready` do not count. */
  sinceMs = Date.now()
  /** When the oldest waiting call asked for the load, Unix ms; null if no call waits. */
  loadingSinceMs: number | null = null
  lastUsedMs = 0
  /** How long its last load took, without the wait for room. */
  loadMs: number | null = null
  /** Where it listens; 0 before its first start. */
  port = 0
  /** The end of the last failed command's output; null if none has failed since the last success. */
  failure: string | null = null
  private readonly actor: ActorRefFrom<typeof modelServerMachine>
  private readonly waiters = new Set<Waiter>()
  /** Of its last start; null: there was none. */
  mark: string | null = null
  private process: ServerProcess | null = null
  /** The request by which it falls asleep or wakes. */
  private ordered: AbortController | null = null
  private entry: ServedModel
  /** Why its last start ran no command; null: it ran one. */
  private fault: string | null = null

  constructor(private readonly options: ModelServerOptions) {
    const { model, times, log } = options
    this.entry = model
    const machine = modelServerMachine.provide({
      actions: {
        startCommand: () => this.start(),
        sendToSleep: () => void this.order('sleep'),
        wakeUp: () => void this.order('wake'),
        terminateCommand: () => this.process?.terminate(),
        killCommand: () => this.process?.kill(),
      },
    })
    const input = {
      startTimeoutMs: (model.start_timeout_s ?? startTimeoutSecondsDefault) * secondMs,
      idleTtlMs: model.idle_ttl_s === undefined ? null : model.idle_ttl_s * secondMs,
      dozes: model.sleep !== undefined,
      stopGraceMs: times.stopGraceMs,
      backoffMs: times.backoffMs,
    }
    this.actor = createActor(machine, { id: model.id, input })
    this.actor.subscribe({
      next: () => this.followed(),
      error: (error) => log.error('actor_failed', { model: model.id, failure: failureName(error) }),
    })
    this.actor.start()
  }

  get model(): ServedModel {
    return this.entry
  }

  /** Its entry was edited, and starts the same process. */
  edited(entry: ServedModel): this {
    this.entry = entry
    return this
  }

  /** Calls that wait or run. */
  get inFlight(): number {
    const { waiting, working } = this.actor.getSnapshot().context
    return waiting + working
  }

  /** Its processes run, and its model is not in memory. */
  get sleeps(): boolean {
    return this.actor.getSnapshot().hasTag('asleep')
  }

  /** With what it takes now. One that sleeps is no rival of its group. */
  get holder(): MemoryHolder {
    const { wanted } = this
    return this.sleeps ? { ...wanted, memoryMb: memoryOf(this.model.sleep ?? {}), group: null } : wanted
  }

  /** With what it takes once its model is in memory. */
  get wanted(): MemoryHolder {
    const { id, group = null, pinned = false } = this.model
    return { id, memoryMb: memoryOf(this.model), group, pinned, holds: this.holds(), lastUsedMs: this.lastUsedMs }
  }

  send(event: Exclude<ModelServerEvent['type'], 'call.ended'>): void {
    this.actor.send({ type: event })
  }

  begin(): RuntimeCall {
    let opened = false
    let ended = false
    this.send('call.began')
    return {
      opened: async (signal) => {
        await this.takes(signal)
        opened = true
      },
      end: () => {
        if (ended) return
        ended = true
        if (opened) this.lastUsedMs = Date.now()
        this.actor.send({ type: 'call.ended', opened })
      },
    }
  }

  /** Resolves when no process is left. */
  async end(): Promise<void> {
    this.send('end.asked')
    await this.process?.exited
    this.actor.stop()
  }

  private holds(): MemoryHolder['holds'] {
    const snapshot = this.actor.getSnapshot()
    if (!snapshot.hasTag('memory') && !snapshot.hasTag('asleep')) return 'away'
    if (this.state === 'stopping' || this.state === 'falling') return 'leaving'
    return this.state === 'ready.idle' || snapshot.hasTag('asleep') ? 'idle' : 'working'
  }

  /** Resolves when the server has the call, which then counts as its work. */
  private takes(signal: CancelSignal): Promise<void> {
    if (takesCalls(this.state)) {
      this.send('call.opened')
      return Promise.resolve()
    }
    if (this.refuses()) return Promise.reject(this.unavailable())
    if (signal.aborted) return Promise.reject(new TransportError('aborted'))
    return new Promise((resolve, reject) => {
      const leave = () => {
        signal.removeEventListener('abort', left)
        this.waiters.delete(waiter)
      }
      const left = () => {
        leave()
        reject(new TransportError('aborted'))
      }
      const waiter: Waiter = {
        open: () => {
          leave()
          this.send('call.opened')
          resolve()
        },
        refuse: () => {
          leave()
          reject(this.unavailable())
        },
      }
      signal.addEventListener('abort', left)
      this.waiters.add(waiter)
    })
  }

  private refuses(): boolean {
    return this.state === 'failed' || this.actor.getSnapshot().context.ending
  }

  /** Says when the server is started again, where that is known. */
  private unavailable(): Problem {
    const { context } = this.actor.getSnapshot()
    if (this.state !== 'failed' || context.ending) return new Problem('runtime_unavailable')
    const leftMs = this.sinceMs + failedPauseMs(context) - Date.now()
    return new Problem('runtime_unavailable', { retryAfterSeconds: retrySeconds(leftMs) })
  }

  /** The chart has moved, or its counts have. */
  private followed(): void {
    const state = modelServerStateOf(this.actor.getSnapshot())
    if (state !== this.state) this.entered(state)
    if (takesCalls(state)) for (const waiter of [...this.waiters]) waiter.open()
    else if (this.refuses()) for (const waiter of [...this.waiters]) waiter.refuse()
    this.options.moved(this)
  }

  private entered(state: ModelServerState): void {
    const nowMs = Date.now()
    const { log, model } = this.options
    const { state: before, sinceMs } = this
    this.state = state
    if (isReady(state) && isReady(before)) return
    if (before === 'falling' || before === 'waking') this.forgetOrder()
    this.sinceMs = nowMs
    this.loadingSinceMs = this.actor.getSnapshot().hasTag('loading') ? (this.loadingSinceMs ?? nowMs) : null
    if (isReady(state)) {
      if (before === 'starting') this.loadMs = nowMs - sinceMs
      this.failure = null
      this.lastUsedMs = nowMs
    }
    if (state === 'failed') this.failure = this.fault ?? this.written
    log.info('model_server', { model: model.id, state, ...(isReady(state) ? { load_ms: this.loadMs } : {}) })
  }

  /** The end of the output of its last start, at most 64 KiB, without confidential values; null: it was never started. */
  get written(): string | null {
    return this.process === null ? null : confidedTo(this.model).strike(this.process.text)
  }

  private start(): void {
    const { model, cwd, mark } = this.options
    this.port = typeof model.port === 'number' ? model.port : freePort()
    this.fault = null
    // The program that holds the port would get the waiting prompts.
    if (typeof model.port === 'number' && isTaken(model.port)) {
      this.fault = `[agent] Port ${model.port} is in use by another program.`
      this.send('command.exited')
      return
    }
    const placed = (text: string) => text.replaceAll('{port}', String(this.port)).replaceAll('{model}', model.id)
    const env = Object.entries(model.env ?? {}).map(([name, value]) => [name, placed(value)])
    this.mark = mark()
    const process = new ServerProcess({
      command: model.command.map(placed),
      env: { PORT: String(this.port), ...Object.fromEntries(env) },
      cwd: model.cwd ?? cwd,
      mark: this.mark,
      ...(model.stop === undefined ? {} : { stop: model.stop.map(placed) }),
    })
    this.process = process
    void process.exited.then(() => this.send('command.exited'))
    void this.healthAnswers(process).then((answers) => {
      if (answers) this.send('health.answered')
    })
  }

  /** Resolves when it does; false: it was ended, or has ended by itself. */
  private async healthAnswers(process: ServerProcess): Promise<boolean> {
    const { model, times } = this.options
    // Once it has ended, an answer on its port comes from another program.
    while (!process.ended && this.state !== 'stopping') {
      if (await healthAnswers(this.port, model.health ?? '/health')) return !process.ended
      await Bun.sleep(times.healthMs)
    }
    return false
  }

  private forgetOrder(): void {
    this.ordered?.abort()
    this.ordered = null
  }

  /** One that sleeps or wakes at its own request; its chart bounds how long. */
  private async order(what: 'sleep' | 'wake'): Promise<void> {
    const { process } = this
    const request = this.model[what]
    if (process === null || request === undefined) return this.send('order.failed')
    const leaving = new AbortController()
    this.ordered = leaving
    const done = await answersOrder(this.port, request, leaving.signal)
    const answers = done && (what === 'sleep' || (await this.healthAnswers(process)))
    // A state that it has left meanwhile hears nothing of it.
    if (this.ordered === leaving) this.send(answers && !process.ended ? 'order.done' : 'order.failed')
  }
}
