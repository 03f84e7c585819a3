import { randomBytes } from 'node:crypto'
import { Alarm } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { takesCalls } from '../../machines/charts/model-server.ts'
import { type DeviceMb, type MemoryHolder, roomFor } from '../../machines/plan/model-memory.ts'
import { isoTime } from '../../time.ts'
import { lastLines } from './last-lines.ts'
import { residentByMark } from './marked-processes.ts'
import { ModelServer } from './model-server.ts'
import { type ModelsFile, memoryOf, memorySum, type ServedModel } from './models-file.ts'
import { keepServers, type ServerKeeper } from './server-keeper.ts'
import { type ServerTimes, serverTimes } from './server-times.ts'
import { endOrphans, type StoredServers, serversFile } from './stored-servers.ts'

/** Lines shown of a failed command's output. */
const linesShown = 10
const yieldMsMax = 60_000

export interface ModelServersOptions {
  readonly file: ModelsFile
  readonly folder: PrivateFolder
  readonly log: Log
  readonly times?: Partial<ServerTimes>
  /** `PATH` for tools that tell of graphics cards; absent: that of the agent. */
  readonly toolPath?: string | undefined
}

export async function startModelServers(options: ModelServersOptions): Promise<ModelServers> {
  await endOrphans(options.folder)
  return new ModelServers(options)
}

/** Its owner wants it in memory before the first call. */
const isKept = ({ pinned, preload }: ServedModel) => pinned === true || preload === true

/** What a process was started by. The other members count from the next call on, and need no new process. */
const startOf = (model: ServedModel) =>
  JSON.stringify({
    ...model,
    pinned: undefined,
    preload: undefined,
    logs: undefined,
    request: undefined,
    profiles: undefined,
    files: undefined,
  })

/** The model servers of `models.json`: who may be in memory, and who gives way (§30). */
export class ModelServers {
  list: readonly ModelServer[] = []
  private file: ModelsFile
  /** Of entries that are no more: each ends when its work is done, and has memory until then. */
  private leaving: readonly ModelServer[] = []
  private readonly word = `${randomBytes(16).toString('hex')}.`
  private readonly keeper: ServerKeeper
  private readonly listeners = new Set<() => void>()
  private starts = 0
  private looking = false
  private again = false
  private stopping = false
  private resident: ReadonlyMap<string, number> = new Map()
  private readonly measuring: Loop
  private readonly yielding = new Alarm(() => this.look())
  /** What the listeners were told of. */
  private lastListed = ''
  /** The state in the folder; null if the last write failed. */
  private saved: string | null = ''
  /** What is wrong with the file as it is now; null: it was read. */
  private fault: string | null = null

  constructor(private readonly options: ModelServersOptions) {
    this.file = options.file
    // Saved before the first start, so that the next agent after a crash knows the mark.
    this.write([])
    this.keeper = keepServers(this.word)
    this.measuring = loop({
      pauseMs: options.times?.measureMs ?? serverTimes.measureMs,
      run: (signal) => this.measure(signal),
    })
    this.adopt(options.file)
    this.measuring.start()
  }

  /** By device, MiB. */
  get budgetMb(): DeviceMb {
    return memoryOf(this.file)
  }

  /**
   * Takes over an edited file. Servers whose entries start the same process run on; one whose entry starts another or is gone takes no
   * more calls, and ends when its work is done.
   */
  adopt(file: ModelsFile): void {
    if (this.stopping) return
    const { log, folder, times } = this.options
    const common = {
      times: { ...serverTimes, ...times },
      log,
      cwd: folder.path,
      mark: () => `${this.word}${this.starts++}.`,
      moved: () => this.look(),
    }
    const early = new Set(this.list.filter(({ model }) => isKept(model)))
    const kept = new Map(this.list.map((server) => [startOf(server.model), server]))
    const list = file.models.map(
      (model) => kept.get(startOf(model))?.edited(model) ?? new ModelServer({ ...common, model }),
    )
    const gone = this.list.filter((server) => !list.includes(server))
    this.file = file
    this.fault = null
    this.list = list
    this.leaving = [...this.leaving, ...gone]
    for (const server of list) if (isKept(server.model) && !early.has(server)) server.send('load.asked')
    this.look()
  }

  /** The file on the disk is broken: what was read before stands. `fault`: for the owner of this computer alone. */
  refused(fault: string): void {
    this.fault = fault
    this.look()
  }

  /** What the processes of a server have in memory now, MiB; undefined: none runs, or it was not measured yet. */
  residentMb({ mark }: ModelServer): number | undefined {
    return mark === null ? undefined : this.resident.get(mark)
  }

  /** undefined: `models.json` does not name it. */
  byModel(id: string): ModelServer | undefined {
    return this.list.find(({ model }) => model.id === id)
  }

  /** To load it, another model would have to leave memory. */
  evicts({ wanted, sleeps }: ModelServer): boolean {
    if (wanted.holds !== 'away' && !sleeps) return false
    return roomFor(wanted, this.holders(), this.budgetMb).kind !== 'free'
  }

  /** Returns what ends it. */
  onChange(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  /** Resolves when no process is left. */
  async stop(): Promise<void> {
    this.stopping = true
    this.yielding.clear()
    await this.measuring.stop()
    await Promise.all([...this.list, ...this.leaving].map((server) => server.end()))
    this.keeper.stop()
  }

  private holders(): readonly MemoryHolder[] {
    // Another entry may have the same id by now.
    const leaving = this.leaving.map(({ holder }, at): MemoryHolder => {
      const holds = holder.holds === 'away' ? 'away' : 'leaving'
      return { ...holder, id: `${at} leaves`, holds }
    })
    return [...this.list.map(({ holder }) => holder), ...leaving]
  }

  /** Servers of entries that are no more finish their work; those without a process refuse who waits for them. */
  private letGo(): void {
    for (const server of this.leaving) {
      if (takesCalls(server.state)) server.send('unload.asked')
      else if (server.sleeps) server.send('evict.asked')
    }
    const gone = this.leaving.filter(({ holder }) => holder.holds === 'away')
    this.leaving = this.leaving.filter((server) => !gone.includes(server))
    for (const server of gone) void server.end()
  }

  /** A pinned model that is away, since its command has ended, say, is loaded again. */
  private keepPinned(): void {
    if (this.stopping) return
    for (const server of this.list) {
      if (server.model.pinned === true && server.state === 'stopped') server.send('load.asked')
    }
  }

  /**
   * A server has changed state: gives room to waiting models, the one that has waited longest first. One pass at a
   * time.
   */
  private look(): void {
    this.again = true
    if (this.looking) return
    this.looking = true
    while (this.again) {
      this.again = false
      this.letGo()
      this.keepPinned()
      this.giveRoom()
    }
    this.looking = false
    this.save()
  }

  private giveRoom(): void {
    const queued = this.list.filter(({ state }) => state === 'queued' || state === 'recalled')
    for (const server of queued.toSorted((a, b) => (a.loadingSinceMs ?? 0) - (b.loadingSinceMs ?? 0))) {
      const room = roomFor(server.wanted, this.holders(), this.budgetMb)
      if (room.kind === 'free') {
        server.send('memory.given')
        continue
      }
      if (room.kind === 'evict') for (const id of room.ids) this.byModel(id)?.send('evict.asked')
      else this.askToYield(server, room.busy)
      // No other model may overtake it, or a large one would wait for ever behind small ones.
      return
    }
  }

  /**
   * Work is never ended. But a model that has waited for as long as its load takes gets the memory once the work is
   * done.
   */
  private askToYield(server: ModelServer, busy: readonly string[]): void {
    const { yieldMsMin } = { ...serverTimes, ...this.options.times }
    const known = server.loadMs ?? Math.max(...this.list.map(({ loadMs }) => loadMs ?? 0))
    const patienceMs = Math.min(Math.max(known, yieldMsMin), yieldMsMax)
    const leftMs = (server.loadingSinceMs ?? 0) + patienceMs - Date.now()
    this.yielding.clear()
    // Each event of a server is another pass. A server that was asked has left `ready.busy`, so it is asked once.
    const yielding = busy.map((id) => this.byModel(id)).filter((one) => one?.state === 'ready.busy')
    if (leftMs <= 0) for (const one of yielding) one?.send('yield.asked')
    else this.yielding.set(leftMs)
  }

  /** Written when a state changes, not with every call. */
  private save(): void {
    const servers = this.list.map(({ model, state, sinceMs, failure }) => ({
      model: model.id,
      // Idle or busy is nothing to write at each call.
      state: state === 'ready.busy' ? ('ready.idle' as const) : state,
      since: isoTime(sinceMs),
      memory_mb: memorySum(model),
      last_lines: failure === null ? [] : lastLines(failure, linesShown),
    }))
    const text = JSON.stringify([servers, this.fault, this.file])
    if (text !== this.lastListed) {
      this.lastListed = text
      for (const listener of this.listeners) listener()
    }
    if (text === this.saved) return
    try {
      this.write(servers)
      this.saved = text
    } catch (error) {
      // A full disk is logged once and blocks no answer: the next change writes again.
      if (this.saved !== null) this.options.log.error('model_servers_not_saved', { failure: failureName(error) })
      this.saved = null
    }
  }

  private async measure(signal: AbortSignal): Promise<void> {
    const isRunning = [...this.list, ...this.leaving].some(({ holder }) => holder.holds !== 'away')
    this.resident = isRunning ? await residentByMark(this.word, { path: this.options.toolPath, signal }) : new Map()
  }

  private write(servers: StoredServers['servers']): void {
    const stored: StoredServers = { word: this.word, ...(this.fault === null ? {} : { fault: this.fault }), servers }
    this.options.folder.write(serversFile, stored)
  }
}
