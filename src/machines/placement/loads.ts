import { ewma } from './moving-mean.ts'

/** A load that seems to take longer was not watched all the time. */
const loadMsMax = 600_000
/** Assumed where no load was measured: the speed of a disk, and the time where the size is unknown, too. */
const loadBytesPerMs = 1_000_000
const loadMsAssumed = 15_000
/** The same for a model that its server keeps outside of the graphics card (vLLM's sleep). */
const rouseMsAssumed = 2_000
/** A model that is asked for at least so often is in use: if it leaves memory, it comes back, ms. */
const inUseMs = 600_000

/** How long loads took on a node, and on all of its owner. */
export class LoadTimes {
  /** Exponentially weighted; null: none was measured. */
  meanMs: number | null = null

  /** `all`: those of all nodes; null: these are. */
  constructor(readonly all: LoadTimes | null) {}

  measured(loadMs: number): void {
    this.meanMs = ewma(this.meanMs, loadMs)
    this.all?.measured(loadMs)
  }
}

/** A model of one route and the memory of its server. Written by the router alone. */
export interface ModelLoad {
  /** Exponentially weighted length of a load of the model; null: none was measured. */
  loadEwmaMs: number | null
  /** Of all models of its node, and of all nodes. */
  readonly loadTimes: LoadTimes
  /** Of the model's files or memory; null: its server tells neither. */
  sizeBytes: number | null
  /** Unix ms since when a call waits for the model to be loaded; null: none does. */
  loadStartedAtMs: number | null
  /** Unix ms when the model was last seen to have come into memory; 0: never. */
  loadedAtMs: number
  /** How often it was seen to come into memory and to leave it, and how long calls waited for it, ms. */
  loads: number
  unloads: number
  loadMsSum: number
  /** The runtime says that the model is not in memory. */
  cold: boolean
  /** It is not gone from the computer, and comes back sooner than by a load: vLLM's sleep. */
  dozing: boolean
  /** Exponentially weighted time that this takes; null: none was measured. */
  rouseEwmaMs: number | null
  /** To load the model, the runtime would throw out another one: what its users will wait then, ms. */
  evictedWaitMs: number
  /** Exponentially weighted time between two calls that were placed here, and when the last one was, Unix ms. */
  gapEwmaMs: number | null
  placedAtMs: number
}

export const newModelLoad = (loadTimes: LoadTimes): ModelLoad => ({
  loadEwmaMs: null,
  loadTimes,
  sizeBytes: null,
  loadStartedAtMs: null,
  loadedAtMs: 0,
  loads: 0,
  unloads: 0,
  loadMsSum: 0,
  cold: false,
  dozing: false,
  rouseEwmaMs: null,
  evictedWaitMs: 0,
  gapEwmaMs: null,
  placedAtMs: 0,
})

/**
 * How long a load of the model takes here: as measured; else as other models take on its node, as the model takes elsewhere
 * (`elsewhereMs`), as any model takes on any node; else by its size.
 */
export function loadMsOf(load: ModelLoad, elsewhereMs: number | null): number {
  const { dozing, rouseEwmaMs } = load
  if (!dozing) return coldLoadMsOf(load, elsewhereMs)
  return rouseEwmaMs ?? Math.min(rouseMsAssumed, coldLoadMsOf(load, elsewhereMs))
}

function coldLoadMsOf({ loadEwmaMs, loadTimes, sizeBytes }: ModelLoad, elsewhereMs: number | null): number {
  const measured = loadEwmaMs ?? loadTimes.meanMs ?? elsewhereMs ?? loadTimes.all?.meanMs
  return measured ?? (sizeBytes === null ? loadMsAssumed : Math.min(loadMsMax, sizeBytes / loadBytesPerMs))
}

/** What a call waits for the model, and what others wait for the one that gives way. Only the rest of a load that is under way counts. */
export function loadLeftMs(load: ModelLoad, elsewhereMs: number | null, nowMs: number): number {
  const loadMs = loadMsOf(load, elsewhereMs)
  const { loadStartedAtMs, evictedWaitMs } = load
  return loadStartedAtMs === null ? loadMs + evictedWaitMs : Math.max(loadMs - (nowMs - loadStartedAtMs), 0)
}

/**
 * What its users will wait if this model leaves memory: the next one for its load, and those who come meanwhile. One that is rarely asked for
 * costs a share of that, since an hour without it is worth more than its next load.
 */
export function evictionMs(load: ModelLoad, nowMs: number): number {
  if (load.placedAtMs === 0) return 0
  const loadMs = loadMsOf(load, null)
  const gapMs = Math.max(1, load.gapEwmaMs ?? 0, nowMs - load.placedAtMs)
  return loadMs * (Math.min(1, inUseMs / gapMs) + (load.gapEwmaMs === null ? 0 : loadMs / gapMs))
}

/** A call was placed: where the model is not in memory, its server loads it now. */
export function loadAwaited(load: ModelLoad, nowMs: number): void {
  if (load.placedAtMs !== 0) load.gapEwmaMs = ewma(load.gapEwmaMs, Math.max(0, nowMs - load.placedAtMs))
  load.placedAtMs = nowMs
  if (load.cold) load.loadStartedAtMs ??= nowMs
}

/** A call got an answer, so the model is in memory; the load's time is unknown. */
export function loadProved(load: ModelLoad): void {
  if (load.cold) load.loads++
  load.cold = false
  load.dozing = false
  load.evictedWaitMs = 0
  load.loadStartedAtMs = null
}

/** All waiting calls gave up before the load ended. */
export function loadGivenUp(load: ModelLoad): void {
  if (load.cold) load.loadStartedAtMs = null
}

/** What its server says of a load. null: none is under way; undefined: it does not say. */
export function noteLoad(load: ModelLoad, sinceMs: number | null | undefined, anyWaits: boolean): void {
  if (!load.cold || sinceMs === undefined) return
  if (sinceMs !== null) load.loadStartedAtMs = sinceMs
  else if (!anyWaits) load.loadStartedAtMs = null
}

/** A waiting call saw the model come into memory, so the load's time is known. */
export function loadSeen(load: ModelLoad, nowMs: number): void {
  const { loadStartedAtMs } = load
  if (loadStartedAtMs !== null) {
    // A first token is dated from its answer's end: by whole milliseconds that can lie before the start.
    const loadMs = Math.min(Math.max(0, nowMs - loadStartedAtMs), loadMsMax)
    load.loadMsSum += loadMs
    if (load.dozing) load.rouseEwmaMs = ewma(load.rouseEwmaMs, loadMs)
    else {
      load.loadEwmaMs = ewma(load.loadEwmaMs, loadMs)
      load.loadTimes.measured(loadMs)
    }
  }
  load.loads++
  load.loadedAtMs = nowMs
  load.cold = false
  load.dozing = false
  load.evictedWaitMs = 0
  load.loadStartedAtMs = null
}

/**
 * The server reports whether the model is in memory. `before`: its last report; null if it does not report this. `askedAtMs`: Unix ms
 * when it was asked; a call may have seen the model in memory since, and knows better.
 */
export function noteMemory(
  load: ModelLoad,
  loaded: boolean | null,
  before: boolean | null,
  nowMs: number,
  askedAtMs: number = nowMs,
): void {
  if (loaded === true && load.cold) loadSeen(load, nowMs)
  if (loaded === false && before === true) load.unloads++
  load.cold = loaded === false && load.loadedAtMs <= askedAtMs
  if (!load.cold) load.loadStartedAtMs = null
}
