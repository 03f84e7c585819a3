import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type Loop, loop } from '../../host/loop.ts'
import { isLoopback } from '../../host/loopback.ts'
import { PrivateFileError, type PrivateFolder } from '../../host/private-files.ts'
import { newId, type RuntimeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import { discoverHere, loopbackUrl } from '../../polling/discover-here.ts'
import { runtimesMax } from '../../protocol/wire/nodes/agent.ts'
import type { ScoreKind } from '../../runtimes/ranking.ts'
import { nodeBaseUrl } from '../../transport/http1/direct.ts'
import type { KvEndpoints } from '../kv-events/reported-caches.ts'
import { type LocalRuntime, type RuntimeTimes, runtimeTimes, WatchedRuntime } from './local-runtime.ts'

const runtimesFile = 'runtimes.json'

/** The stored ids of this node's runtimes. The label is a base URL or `built-in:…`. */
const StoredRuntimes = Type.Object({
  runtimes: Type.Array(
    Type.Object({ label: Type.String(), runtime_id: Type.String({ pattern: '^rt_[0-9A-Z]{26}$' }) }),
  ),
})
type StoredRuntime = Static<typeof StoredRuntimes>['runtimes'][number]
/** How many runtimes are remembered. A forgotten one that comes back gets a new id. */
const rememberedMax = 256

export interface RuntimeSet {
  /** At most `runtimesMax`. */
  list(): readonly LocalRuntime[]
  /** Calls back when something important about a runtime has changed. Returns a function that ends this. */
  onChange(listener: () => void): () => void
  /** From now on the agent itself runs these, by name, and no others. One that it ran under its name already stays. */
  serve(builtIn: BuiltIn, serverPorts: readonly number[]): void
  stop(): void
}

/** `changed`: something important about it has. */
export type BuiltIn = Readonly<Record<string, (runtimeId: RuntimeId, changed: () => void) => LocalRuntime>>

/** If `scoreKind` is null, the kind of the server decides. */
export interface DeclaredRanker {
  readonly url: string
  readonly scoreKind: ScoreKind | null
}

/** The API key with which the agent calls a model server. */
export interface RuntimeKey {
  readonly url: string
  readonly apiKey: string
}

/** A model server that publishes what is in its cache; one entry for each of its ranks. */
export interface RuntimeKvEvents extends KvEndpoints {
  readonly url: string
}

export interface RuntimeSetOptions {
  readonly folder: PrivateFolder
  readonly log: Log
  /** Base URLs that were named. */
  readonly urls: readonly string[]
  /** Model servers that rerank documents according to the operator. */
  readonly rankers?: readonly DeclaredRanker[]
  /** A server with a key need not be in `urls`. */
  readonly keys?: readonly RuntimeKey[]
  /** The same for a server with events. */
  readonly kvEvents?: readonly RuntimeKvEvents[]
  /** Look for model servers on loopback, now and every `discoverMs`. */
  readonly discover: boolean
  readonly discoverMs?: number
  /** The agent's own port, which is never a runtime. */
  readonly ownPort: number
  /** Runtimes that the agent itself runs, by name. */
  readonly builtIn?: BuiltIn
  /** Where the agent's own model servers listen. */
  readonly serverPorts?: readonly number[]
  readonly times?: RuntimeTimes
}

const ownPrefix = 'built-in:'
const discoverMsDefault = 30_000

/** Resolves when every named or discovered runtime has answered or failed once. */
export async function startRuntimes(options: RuntimeSetOptions): Promise<RuntimeSet> {
  const set = new RunningRuntimes(options)
  await set.start()
  return set
}

class RunningRuntimes implements RuntimeSet {
  private readonly byLabel = new Map<string, LocalRuntime>()
  private readonly listeners = new Set<() => void>()
  private remembered: readonly StoredRuntime[]
  private readonly discovering: Loop
  private stopped = false
  /** Where the agent's own model servers listen. */
  private serverPorts: readonly number[] = []

  constructor(private readonly options: RuntimeSetOptions) {
    const stored = options.folder.read(runtimesFile)
    if (stored !== undefined && !Value.Check(StoredRuntimes, stored)) {
      throw new PrivateFileError(`${options.folder.path}/${runtimesFile} is damaged`)
    }
    this.remembered = stored?.runtimes ?? []
    this.discovering = loop({ pauseMs: options.discoverMs ?? discoverMsDefault, run: () => this.discover() })
  }

  async start(): Promise<void> {
    this.serve(this.options.builtIn ?? {}, this.options.serverPorts ?? [])
    const polls = (this.options.rankers ?? []).map((ranker) => this.watch(ranker.url, ranker))
    const { urls: named, keys = [], kvEvents = [] } = this.options
    const urls = [...named, ...[...keys, ...kvEvents].map(({ url }) => url)]
    polls.push(...urls.map((url) => this.watch(url)))
    if (this.options.discover) polls.push(this.discovering.startNow())
    await Promise.all(polls)
  }

  list(): readonly LocalRuntime[] {
    return [...this.byLabel.values()]
  }

  serve(builtIn: BuiltIn, serverPorts: readonly number[]): void {
    if (this.stopped) return
    this.serverPorts = serverPorts
    const wanted = new Map(Object.entries(builtIn).map(([name, make]) => [`${ownPrefix}${name}`, make]))
    for (const [label, runtime] of this.byLabel) {
      if (!label.startsWith(ownPrefix) || wanted.has(label)) continue
      this.byLabel.delete(label)
      runtime.stop?.()
    }
    for (const [label, make] of wanted) {
      if (this.byLabel.has(label) || this.byLabel.size >= runtimesMax) continue
      this.byLabel.set(
        label,
        make(this.idOf(label), () => this.changed()),
      )
    }
    this.changed()
  }

  onChange(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  stop(): void {
    this.stopped = true
    void this.discovering.stop()
    for (const runtime of this.byLabel.values()) runtime.stop?.()
  }

  private async watch(url: string, ranker?: DeclaredRanker): Promise<void> {
    const label = nodeBaseUrl(url)
    if (label === null || this.stopped || this.byLabel.has(label) || this.byLabel.size >= runtimesMax) return
    const runtime = new WatchedRuntime({
      runtimeId: this.idOf(label),
      url: label,
      apiKey: this.options.keys?.find((key) => nodeBaseUrl(key.url) === label)?.apiKey ?? null,
      times: this.options.times ?? runtimeTimes,
      kvEvents: (this.options.kvEvents ?? []).filter((events) => nodeBaseUrl(events.url) === label),
      onChange: () => this.changed(),
      ...(ranker === undefined ? {} : { ranker }),
    })
    this.byLabel.set(label, runtime)
    await runtime.poll()
  }

  private async discover(): Promise<void> {
    const found = await discoverHere([this.options.ownPort, ...this.serverPorts, ...this.loopbackPorts()])
    for (const { port, module } of found) {
      // The log gets only the kind, because no log contains a runtime's address.
      this.options.log.info('runtime_discovered', { kind: module.kind })
      await this.watch(loopbackUrl(port))
    }
  }

  /** The ports of runtimes on this computer, so that one server under two names is one runtime. */
  private loopbackPorts(): readonly number[] {
    const urls = [...this.byLabel.keys()].filter((label) => label.startsWith('http')).map((label) => new URL(label))
    return urls.filter(({ hostname }) => isLoopback(hostname)).map(({ port }) => Number(port))
  }

  private idOf(label: string): RuntimeId {
    const known = this.remembered.find((entry) => entry.label === label)
    if (known !== undefined) return known.runtime_id as RuntimeId
    const runtimeId = newId('rt')
    this.remembered = [{ label, runtime_id: runtimeId }, ...this.remembered].slice(0, rememberedMax)
    this.options.folder.write(runtimesFile, { runtimes: this.remembered })
    return runtimeId
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener()
  }
}
