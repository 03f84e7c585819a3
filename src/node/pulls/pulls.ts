import { waitAtMost } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { PrivateFolder } from '../../host/private-files.ts'
import { modelIdPattern, newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import {
  type AgentPullOrder,
  hasEnded,
  type Pull,
  type PullFailure,
  pullsKeptMax,
  pullsOpenMax,
} from '../../protocol/wire/nodes/pulls.ts'
import { hourMs, isoTime, secondMs } from '../../time.ts'
import { DiskRoom } from '../hardware/disk.ts'
import type { CopyGateway } from './copy-gateway.ts'
import { type DownloadTimes, download, isFull } from './download.ts'
import type { Found } from './hubs/hub.ts'
import { type HubFetch, hubFetch } from './hubs/hub-fetch.ts'
import { PullFault } from './hubs/pull-fault.ts'
import { type Estimate, estimateOf } from './model-estimate.ts'
import { modelHead } from './model-head.ts'
import { checkFits, serverCommand, writeEntry } from './models-entry.ts'
import { bytesAt, bytesIn, madeFolder, modelFolder, placeOf } from './pull-places.ts'
import { type PlacedRef, type PullSource, placed } from './pull-sources.ts'
import type { Turn } from './turns.ts'

/** What the owner of this computer lets its agent fetch; nothing unless a source is named. */
export interface PullOptions {
  readonly sources: readonly PullSource[]
  /** Where models are put, absolute. */
  readonly root: string
  /** What all pulled models may take together, bytes. */
  readonly budgetBytes?: number
  /** Of the entry in `models.json`, with `{file}` and `{context}`. */
  readonly command?: readonly string[]
  /** By the name of a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly times?: DownloadTimes
  /** How long a hub may say nothing, ms. */
  readonly silenceMs?: number
  readonly disk?: DiskRoom
}

const gigabyte = 1_000_000_000
const pullBudgetBytesDefault = 100 * gigabyte
/** Stays free on the disk whatever the budget says, bytes: other programs of the computer need some. */
const reserveBytes = 2 * gigabyte
const bytesOfMb = 1024 * 1024
const diskMs = 3 * secondMs
/** A pull that takes longer is given up; the next one goes on where it stopped. */
const pullMsMax = 24 * hourMs
/** How long the agent's end waits for a pull to let go of its file, ms. */
const stopMs = 5 * secondMs

interface Running {
  readonly order: AgentPullOrder
  readonly at: PlacedRef
  readonly leaving: AbortController
  pull: Pull
}

const cancelled = 'cancelled' as const

export interface PullParts {
  readonly options: PullOptions
  readonly folder: PrivateFolder
  readonly log: Log
  /** Models of other nodes come through it; null: no gateway knows this agent. */
  readonly gateway: () => CopyGateway | null
  readonly turn: Turn
}

/** Fetches models for this computer, one after the other (§39). What there is of them is kept in memory, and their parts on the disk. */
export class Pulls {
  /** Newest first. */
  private kept: readonly Running[] = []
  private working: Promise<void> | null = null
  private stopping = false
  private readonly disk: DiskRoom

  constructor(private readonly parts: PullParts) {
    this.disk = parts.options.disk ?? new DiskRoom()
  }

  /** One is fetched, or waits for that. */
  get isBusy(): boolean {
    return this.kept.some(({ pull }) => !hasEnded(pull.state))
  }

  list(): readonly Pull[] {
    return this.kept.map(({ pull }) => pull)
  }

  /** Throws `invalid_state` and `invalid_request`. The same model from the same place once more is the pull that is under way. */
  order(order: AgentPullOrder): Pull {
    const { options } = this.parts
    const at = placed(order.ref, options.sources)
    if (at === null || this.stopping || (at.source.hub.name === 'node') !== (order.ticket !== undefined))
      throw refused('The owner of this computer lets its agent fetch nothing from there')
    const model = order.model ?? at.source.hub.modelOf(at.ref)
    if (!modelIdPattern.test(model))
      throw new Problem('invalid_request', { param: 'ref', detail: 'The reference names no model' })
    const open = this.kept.filter(({ pull }) => !hasEnded(pull.state))
    const same = open.find(({ pull }) => pull.ref === order.ref && pull.model === model)
    if (same !== undefined) return same.pull
    if (open.length >= pullsOpenMax) throw refused(`${pullsOpenMax} models wait already to be fetched`)
    const pull: Pull = {
      pull_id: newId('pull'),
      ref: order.ref,
      model,
      state: 'waiting',
      failure: null,
      bytes_done: 0,
      bytes_total: null,
      memory_mb: null,
      context_length: null,
      begun_at: isoTime(Date.now()),
      ended_at: null,
    }
    this.keep({ order, at, leaving: new AbortController(), pull })
    this.begin()
    return pull
  }

  /** Its parts stay for the next try. Repeating it is no error. Throws `pull_not_found`. */
  cancel(pullId: string): Pull {
    const running = this.kept.find(({ pull }) => pull.pull_id === pullId)
    if (running === undefined) throw new Problem('pull_not_found')
    if (!hasEnded(running.pull.state)) {
      this.ended(running, { state: cancelled })
      running.leaving.abort()
    }
    return running.pull
  }

  /** Resolves when nothing is written any more. */
  async stop(): Promise<void> {
    this.stopping = true
    for (const running of this.kept) {
      if (hasEnded(running.pull.state)) continue
      this.ended(running, { state: 'failed', failure: 'agent_stopped' })
      running.leaving.abort()
    }
    await waitAtMost(stopMs, this.working ?? Promise.resolve())
  }

  private keep(running: Running): void {
    const all = [running, ...this.kept]
    const ended = all.filter(({ pull }) => hasEnded(pull.state))
    const forgotten = new Set(ended.slice(Math.max(0, pullsKeptMax - (all.length - ended.length))))
    this.kept = all.filter((each) => !forgotten.has(each))
  }

  private begin(): void {
    this.working ??= this.work().finally(() => {
      this.working = null
      // One that came as the last one ended.
      if (this.next() !== undefined) this.begin()
    })
  }

  private next(): Running | undefined {
    return this.kept.findLast(({ pull }) => pull.state === 'waiting')
  }

  private async work(): Promise<void> {
    for (;;) {
      const next = this.next()
      if (next === undefined) return
      const signal = AbortSignal.any([next.leaving.signal, AbortSignal.timeout(pullMsMax)])
      try {
        await this.fetchModel(next, signal)
        this.ended(next, { state: 'done' })
      } catch (error) {
        this.ended(next, { state: 'failed', failure: this.failureOf(error, signal) })
      }
    }
  }

  private failureOf(error: unknown, signal: AbortSignal): PullFailure {
    if (error instanceof PullFault) return error.failure
    if (signal.aborted) return 'hub_unavailable'
    this.parts.log.error('pull_broken', { failure: failureName(error) })
    return isFull(error) ? 'disk_full' : 'disk_error'
  }

  /** What was cancelled stays so. */
  private ended(running: Running, more: Pick<Pull, 'state'> & Partial<Pick<Pull, 'failure'>>): void {
    if (hasEnded(running.pull.state)) return
    running.pull = { ...running.pull, ...more, ended_at: isoTime(Date.now()) }
    const { state, failure } = running.pull
    this.parts.log.info('pull_ended', { state, ...(failure === null ? {} : { failure }) })
  }

  private report(running: Running, more: Partial<Pull>): void {
    if (!hasEnded(running.pull.state)) running.pull = { ...running.pull, ...more }
  }

  private async fetchModel(running: Running, signal: AbortSignal): Promise<void> {
    const { folder, options } = this.parts
    const { order, at, pull } = running
    this.report(running, { state: 'looking' })
    this.parts.log.info('pull_begun', { hub: at.source.hub.name })
    const { base, get } = this.accessTo(running, signal)
    const { ref, source } = at
    const found = await source.hub.find({ ref, base, sha256: order.sha256 ?? null, get, signal })
    if (order.sha256 !== undefined && found.files[0].sha256 !== order.sha256) throw new PullFault('wrong_hash')
    const place = modelFolder(options.root, pull.model, pull.ref)
    const paths = found.files.map(({ name }) => placeOf(place, name))
    const estimate = await this.estimated(running, found, get)
    checkFits(folder, pull.model, estimate.memoryMb)
    madeFolder(place)
    await this.checkRoom(found, paths)
    this.report(running, { state: 'fetching' })
    await this.fetchFiles(running, found, paths, get, signal)
    signal.throwIfAborted()
    const files = found.files.map(({ sha256 }, at) => ({ path: paths[at] ?? '', sha256 }))
    writeEntry(folder, { model: pull.model, files, estimate, command: options.command ?? serverCommand })
  }

  private accessTo({ at: { source }, order: { ticket } }: Running, signal: AbortSignal) {
    const { gateway, options } = this.parts
    const { env = {}, silenceMs } = options
    const { hub } = source
    const token = hub.tokenVariable === null ? null : (env[hub.tokenVariable] ?? null)
    const copying = ticket === undefined ? null : gateway()
    if (ticket !== undefined && copying === null) throw new PullFault('not_allowed')
    const base = copying?.url ?? source.base
    const credentials = (url: URL): Readonly<Record<string, string>> =>
      copying === null || ticket === undefined
        ? token === null
          ? {}
          : { authorization: `Bearer ${token}` }
        : copying.credentials(url, ticket)
    const get: HubFetch = hubFetch({
      origin: new URL(base).origin,
      handsOverTo: hub.handsOverTo,
      credentials,
      signal,
      ...(silenceMs === undefined ? {} : { silenceMs }),
    })
    return { base, get }
  }

  /** Before anything else is fetched. */
  private async estimated(running: Running, { files }: Found, get: HubFetch): Promise<Estimate> {
    const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
    const head = await modelHead(files[0].url, get)
    const estimate = estimateOf(head, total, running.order.context_length ?? null)
    if (estimate === null) throw new PullFault('not_a_model')
    const { memoryMb, contextLength } = estimate
    this.report(running, { bytes_total: total, memory_mb: memoryMb, context_length: contextLength })
    return estimate
  }

  /** Of what is not there yet. */
  private async checkRoom({ files }: Found, paths: readonly string[]): Promise<void> {
    const { budgetBytes = pullBudgetBytesDefault, root } = this.parts.options
    const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
    const missing = total - Math.min(total, bytesAt(paths))
    if (bytesIn(root) + missing > budgetBytes) throw new PullFault('over_budget')
    const freeMb = await this.disk.freeMb(root, diskMs)
    if (freeMb !== undefined && missing + reserveBytes > freeMb * bytesOfMb) throw new PullFault('disk_full')
  }

  private async fetchFiles(
    running: Running,
    { files }: Found,
    paths: readonly string[],
    get: HubFetch,
    signal: AbortSignal,
  ): Promise<void> {
    const { options, turn } = this.parts
    const { times } = options
    let before = 0
    for (const [index, file] of files.entries()) {
      const progress = (bytes: number) => this.report(running, { bytes_done: before + bytes })
      const path = paths[index] ?? ''
      await download({ file, path, get, signal, turn, progress, ...(times === undefined ? {} : { times }) })
      before += file.bytes
    }
  }
}

const refused = (detail: string) => new Problem('invalid_state', { detail })
