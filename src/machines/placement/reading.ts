import type { Prompt } from './blocks.ts'
import { ConcurrencyLimit, isLate } from './concurrency.ts'
import { LoadTimes, loadAwaited, loadSeen, type ModelLoad, newModelLoad } from './loads.ts'
import { ewma } from './moving-mean.ts'
import { NodeWake } from './wakes.ts'

/**
 * How fast a profile reads prompts and what still waits there to be read. One object per profile for the life of the
 * process, written by the router alone.
 */
export interface Reading extends ModelLoad {
  /** UTF-16 units; null: no call of enough text was timed. */
  unitsPerMs: number | null
  /** Time of a first token besides reading: the network, and the server's own work before it reads. */
  lagMs: number
  /** How much too long its times may be thought to be by now, ms: grows while calls pass it by. */
  explorationMs: number
  /** Unix ms when it grew last, or was settled by a call. */
  explorationAtMs: number
  /** Own time of calls that were placed and have no first token yet. */
  unseenMs: number
  /** How many these are. */
  unseenCalls: number
  /** The same for calls whose first token the gateway cannot observe, until they end. */
  unheardMs: number
  /** Estimated time when all placed prompts are read, Unix ms. */
  readUntilMs: number
  /** Unix ms of the last first token; 0 before the first. */
  firstTokenAtMs: number
  /** Calls that were placed here and have not ended, and the sum of the times when they were placed, Unix ms. */
  openCalls: number
  openSinceSumMs: number
  /** The most of them at once since the last report of its server. */
  openCallsMost: number
  /** Requests that wait for a slot here because of its cache, and the sum of their own times. */
  awaited: number
  awaitedMs: number
  /** Exponentially weighted share of prompts that was in the cache, 0 to 1, of answers that say so; null: none has. It is shown, not used. */
  matchEwma: number | null
  /** Exponentially weighted own time of the calls placed. */
  ownEwmaMs: number | null
  /**
   * Running and waiting requests of others, by the runtime's last report. The report is seconds old, and some of this
   * gateway's requests in it may have ended since.
   */
  busyByOthers: number
  queuedByOthers: number
  /** Of its node. */
  readonly wake: NodeWake
  /** How many calls it answers at once, as learnt. */
  readonly concurrency: ConcurrencyLimit
  /** Spreads equal prompts over equal profiles, the same on every gateway. */
  readonly salt: number
}

/** What one call is thought to cost the profile it was placed on. */
export interface Work {
  readonly atMs: number
  readonly ownMs: number
  /** Of these, the route's lag. */
  readonly lagMs: number
  readonly unreadUnits: number
  readonly matchedBlocks: number
  /** A slot was free by what its server says, so that the time to the first token is not that of a queue. */
  readonly atOnce: boolean
  /** Calls at the route when this one was placed, itself included; 0: the model was not in memory. */
  readonly concurrency: number
  readonly prompt: Prompt
  /** From the moment its reading began to its first token; null: none was seen. */
  readMs: number | null
}

/** Calls with less to read say nothing of a profile's speed, units. */
const unitsTimedMin = 1_024
/** FNV-1a. */
function saltOf(text: string): number {
  let hash = 0x81_1c_9d_c5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01_00_01_93)
  return hash >>> 0
}

export const newReading = (profileId: string, loadTimes = new LoadTimes(null), wake = new NodeWake()): Reading => ({
  unitsPerMs: null,
  lagMs: 0,
  explorationMs: 0,
  explorationAtMs: 0,
  unseenMs: 0,
  unseenCalls: 0,
  unheardMs: 0,
  readUntilMs: 0,
  firstTokenAtMs: 0,
  openCalls: 0,
  openSinceSumMs: 0,
  openCallsMost: 0,
  awaited: 0,
  awaitedMs: 0,
  matchEwma: null,
  ownEwmaMs: null,
  ...newModelLoad(loadTimes),
  busyByOthers: 0,
  queuedByOthers: 0,
  wake,
  concurrency: new ConcurrencyLimit(),
  salt: saltOf(profileId),
})

/** Call when the work was placed. `timed`: its first token will be seen. */
export function workPlaced(reading: Reading, work: Work, timed: boolean): void {
  if (timed) {
    reading.unseenMs += work.ownMs
    reading.unseenCalls++
  } else reading.unheardMs += work.ownMs
  reading.readUntilMs = Math.max(work.atMs, reading.readUntilMs) + work.ownMs
  reading.ownEwmaMs = ewma(reading.ownEwmaMs, work.ownMs)
  reading.explorationMs = 0
  reading.explorationAtMs = work.atMs
  loadAwaited(reading, work.atMs)
  reading.openCalls++
  if (reading.openCalls > reading.openCallsMost) reading.openCallsMost = reading.openCalls
  reading.openSinceSumMs += work.atMs
}

/** What a call that overtakes others adds to the doubt of one of them, ms. */
const explorationMsPerCall = 1
/** The most that a second adds to the doubt, ms. */
const explorationMsPerSecond = 10
const explorationMsMax = 60_000

/**
 * A call could have gone here and went elsewhere. Without this doubt, one late first token or one slow hour would
 * exclude a route for ever, and it could never show that it is fast. Once a route's doubt reaches the time by which it
 * seems slower, a call explores it. Each call adds to one route, so exploration delays calls by at most
 * `explorationMsPerCall` on average.
 */
export function workPassed(reading: Reading, nowMs: number): void {
  const bySecondsMs = (Math.max(0, nowMs - reading.explorationAtMs) * explorationMsPerSecond) / 1_000
  reading.explorationMs = Math.min(
    explorationMsMax,
    reading.explorationMs + Math.min(explorationMsPerCall, bySecondsMs),
  )
  reading.explorationAtMs = nowMs
}

/** The call has ended, however. `timed`: as it was placed. */
export function workEnded(reading: Reading, work: Work, timed: boolean, nowMs: number): void {
  if (!timed) noteWork(reading, work, nowMs)
  else if (work.readMs === null) workSeen(reading, work, nowMs)
  reading.openCalls--
  reading.openSinceSumMs -= work.atMs
}

/** The first token of timed work was seen, or the call ended without one: corrects the estimate of unread work. */
function workSeen(reading: Reading, work: Work, nowMs: number): void {
  reading.unseenCalls--
  reading.unseenMs = Math.max(0, reading.unseenMs - work.ownMs)
  reading.readUntilMs = nowMs + reading.unseenMs
}

/** A call without a first token has ended: its prompt was read at some time, so at most the others' work is left. */
function noteWork(reading: Reading, work: Work, nowMs: number): void {
  reading.unheardMs = Math.max(0, reading.unheardMs - work.ownMs)
  reading.readUntilMs = Math.min(reading.readUntilMs, nowMs + reading.unseenMs + reading.unheardMs)
}

/** Reading began when the call was placed, or when the one before it had its first token. */
export function firstTokenSeen(reading: Reading, work: Work, nowMs: number): void {
  workSeen(reading, work, nowMs)
  if (reading.cold) loadSeen(reading, nowMs)
  work.readMs = nowMs - Math.max(work.atMs, reading.firstTokenAtMs)
  reading.firstTokenAtMs = nowMs
}

/**
 * Learns from a good answer. `cachedUnits`: the part that the runtime found in its cache; null if not reported.
 * `durationMs`: the mean length of a call there.
 */
export function learnReading(reading: Reading, work: Work, cachedUnits: number | null, durationMs: number): void {
  const { readMs, prompt, ownMs, lagMs } = work
  if (prompt.units > 0 && cachedUnits !== null) {
    reading.matchEwma = ewma(reading.matchEwma, Math.min(1, cachedUnits / prompt.units))
  }
  if (readMs === null || readMs <= 0) return
  const unread = cachedUnits === null ? work.unreadUnits : Math.max(0, prompt.units - cachedUnits)
  learnConcurrency(reading, work, readMs, unread, durationMs)
  if (!work.atOnce || work.concurrency > (reading.concurrency.limit ?? Number.POSITIVE_INFINITY)) return
  const unitsPerMs = unread / readMs
  // Even a short prompt can raise the estimate: a runtime cannot read uncached text faster than its true speed.
  const isFaster = cachedUnits !== null && reading.unitsPerMs !== null && unitsPerMs > reading.unitsPerMs
  if (unread >= unitsTimedMin || isFaster) reading.unitsPerMs = ewma(reading.unitsPerMs, unitsPerMs)
  if (unread < unitsTimedMin) reading.lagMs = ewma(reading.lagMs, Math.max(0, readMs - Math.max(0, ownMs - lagMs)))
}

/** Nothing is late before it is known how fast the route reads. */
function learnConcurrency(
  { unitsPerMs, lagMs, concurrency: limit }: Reading,
  { concurrency }: Work,
  readMs: number,
  unread: number,
  durationMs: number,
): void {
  if (concurrency === 0 || unitsPerMs === null) return
  limit.learn(concurrency, isLate(readMs, unread / unitsPerMs + lagMs, durationMs, concurrency))
}

/** A report of its server: the requests that it works on, and those that wait there; null: it does not say. */
export interface ReportedLoad {
  readonly busy: number | null
  readonly queued: number | null
}

/** Its server says how much it has to do; `ours`: requests of this process then. */
export function loadReported(reading: Reading, { busy, queued }: ReportedLoad, ours: number): void {
  const others = Math.max(0, (busy ?? 0) + (queued ?? 0) - ours)
  reading.queuedByOthers = Math.min(queued ?? 0, others)
  reading.busyByOthers = others - reading.queuedByOthers
  reading.openCallsMost = reading.openCalls
  if (busy !== null && queued !== null) reading.concurrency.reported(busy, queued)
}
