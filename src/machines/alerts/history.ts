import { type Labels, staleMs, type Wanted } from './expression.ts'

/** One series at one moment. */
export interface Reading {
  readonly labels: Labels
  readonly value: number
}

/** What was read at one moment, by the name of what was wanted. */
export type Readings = ReadonlyMap<string, readonly Reading[]>

export interface Point {
  readonly atMs: number
  readonly value: number
}

/** Series of one selector; those that would be more are left out, and counted. */
export const seriesMax = 30_000
/** Readings that come early fit in as well. */
const spareReadings = 2

interface Series {
  readonly labels: Labels
  /** A ring, of which each place is one reading; NaN: it was not there. */
  readonly values: Float64Array
  lastReading: number
}

export const labelsKey = (labels: Labels): string =>
  Object.keys(labels)
    .sort()
    .map((name) => `${name}=${labels[name]}`)
    .join('\n')

/** The last readings of one selector. */
class Kept {
  private readonly times: Float64Array
  private readonly series = new Map<string, Series>()
  private count = 0
  /** Series that had no room at the last reading. */
  leftOut = 0

  constructor(readings: number) {
    this.times = new Float64Array(readings)
  }

  add(atMs: number, readings: readonly Reading[]): void {
    const place = this.count % this.times.length
    this.times[place] = atMs
    this.leftOut = 0
    for (const { values } of this.series.values()) values[place] = Number.NaN
    for (const { labels, value } of readings) {
      const series = this.of(labels)
      if (series === null) continue
      series.values[place] = value
      series.lastReading = this.count
    }
    this.count++
    for (const [key, { lastReading }] of this.series)
      if (this.count - lastReading > this.times.length) this.series.delete(key)
  }

  private of(labels: Labels): Series | null {
    const key = labelsKey(labels)
    const known = this.series.get(key)
    if (known !== undefined) return known
    if (this.series.size >= seriesMax) {
      this.leftOut++
      return null
    }
    const values = new Float64Array(this.times.length).fill(Number.NaN)
    const series = { labels, values, lastReading: this.count }
    this.series.set(key, series)
    return series
  }

  /** Of the series that are there, their points after `fromMs` and up to `toMs`, oldest first. */
  *ranges(fromMs: number, toMs: number): Generator<{ readonly labels: Labels; readonly points: readonly Point[] }> {
    const length = this.times.length
    const places: number[] = []
    for (let at = Math.max(0, this.count - length); at < this.count; at++) {
      const timeMs = this.times[at % length] ?? 0
      if (timeMs > fromMs && timeMs <= toMs) places.push(at % length)
    }
    for (const { labels, values } of this.series.values()) {
      const points: Point[] = []
      for (const place of places) {
        const value = values[place] as number
        if (!Number.isNaN(value)) points.push({ atMs: this.times[place] as number, value })
      }
      if (points.length > 0) yield { labels, points }
    }
  }

  /** The reading of the moment; one that is older than `staleMs` does not count. */
  newest(atMs: number): readonly Reading[] {
    const length = this.times.length
    let newest = -1
    for (let at = Math.max(0, this.count - length); at < this.count; at++)
      if ((this.times[at % length] as number) <= atMs) newest = at % length
    if (newest === -1 || atMs - (this.times[newest] as number) >= staleMs) return []
    return [...this.series.values()].flatMap(({ labels, values }) => {
      const value = values[newest] as number
      return Number.isNaN(value) ? [] : [{ labels, value }]
    })
  }
}

/** What was read lately of everything that the rules look at. */
export class History {
  private readonly kept: ReadonlyMap<string, Kept>

  /** `everyMs`: how often it is read. */
  constructor(wanted: readonly Wanted[], everyMs: number) {
    const keptMs = new Map<string, number>()
    for (const each of wanted) keptMs.set(each.name, Math.max(each.keptMs, keptMs.get(each.name) ?? 0))
    this.kept = new Map([...keptMs].map(([name, ms]) => [name, new Kept(Math.ceil(ms / everyMs) + spareReadings)]))
  }

  /** `atMs`: later than the reading before. What is absent was not there. */
  add(atMs: number, readings: Readings): void {
    for (const [name, kept] of this.kept) kept.add(atMs, readings.get(name) ?? [])
  }

  of(name: string): Pick<Kept, 'ranges' | 'newest'> {
    const kept = this.kept.get(name)
    if (kept === undefined) throw new Error(`nothing is kept of ${name}`)
    return kept
  }

  /** Series that had no room at the last reading. */
  leftOut(): number {
    return [...this.kept.values()].reduce((sum, { leftOut }) => sum + leftOut, 0)
  }
}
