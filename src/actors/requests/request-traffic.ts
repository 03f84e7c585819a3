import type { Database } from '../../db/client.ts'
import {
  hasMoreRows,
  makeRequestSums,
  type NamedMeasure,
  type PointMeasure,
  requestSumsUntil,
  type Span,
  type TrafficOf,
  type TrafficSources,
  trafficByName,
  trafficBySteps,
  trafficRowsMax,
} from '../../db/queries/requests/request-traffic.ts'
import { dayMs, hourMs, minuteMs } from '../../time.ts'

export type { Measure, NamedMeasure, PointMeasure, TrafficOf } from '../../db/queries/requests/request-traffic.ts'

/** Up to here a range is read from its rows alone, to the minute. */
const fineMsMax = 3 * hourMs
/** Up to here its points are hours. */
const hourlyMsMax = 14 * dayMs
/** A request is counted in the hour in which it began, if it is over within this time after that hour. */
const sumAfterMs = hourMs / 2
/** Of one round; the next one goes on. Two months of hours, each some ms. */
const sumsPerRoundMax = 1_440

export interface Traffic {
  readonly fromMs: number
  readonly toMs: number
  /** Where the range of the same length before it begins. */
  readonly beforeMs: number
  readonly stepMs: number
  readonly now: readonly NamedMeasure[]
  readonly before: readonly NamedMeasure[]
  /** Of both ranges. */
  readonly points: readonly PointMeasure[]
  /** False: so many requests that only the newest of them were read. */
  readonly complete: boolean
}

const down = (ms: number, step: number) => Math.floor(ms / step) * step
const up = (ms: number, step: number) => Math.ceil(ms / step) * step
const nowhere: Span = { fromMs: 0, toMs: 0 }

/** Whole days where they are summed up, hours where those are, rows behind them. */
function sourcesOf(
  { fromMs, toMs }: Span,
  until: { readonly hoursMs: number; readonly daysMs: number },
): TrafficSources {
  if (toMs - fromMs <= fineMsMax) return { days: nowhere, hours: [], rows: { fromMs, toMs } }
  const hoursEndMs = Math.max(fromMs, Math.min(toMs, until.hoursMs))
  const days = { fromMs: up(fromMs, dayMs), toMs: Math.min(down(toMs, dayMs), until.daysMs) }
  const hours =
    days.fromMs < days.toMs
      ? [
          { fromMs, toMs: days.fromMs },
          { fromMs: days.toMs, toMs: hoursEndMs },
        ]
      : [{ fromMs, toMs: hoursEndMs }]
  return { days, hours, rows: { fromMs: hoursEndMs, toMs } }
}

/** Points are finer than days: they are read from hours. */
const hourly = (sources: TrafficSources, { fromMs }: Span): TrafficSources => ({
  ...sources,
  days: nowhere,
  hours: sources.hours.length === 0 ? [] : [{ fromMs, toMs: sources.rows.fromMs }],
})

/** Sums up the hours that are over, one statement each; `signal` ends it between two. */
export async function sumRequests(
  db: Database,
  nowMs: number,
  keepFromMs: number,
  signal?: AbortSignal,
): Promise<void> {
  for (let made = 0; made < sumsPerRoundMax && signal?.aborted !== true; made++) {
    if (!(await makeRequestSums(db, nowMs - sumAfterMs, keepFromMs))) return
  }
}

/** A range and the one before it. A long one is read in whole hours. */
export async function readTraffic(db: Database, asked: Span, of: TrafficOf): Promise<Traffic> {
  const fine = asked.toMs - asked.fromMs <= fineMsMax
  const step = fine ? minuteMs : hourMs
  const [fromMs, toMs] = [down(asked.fromMs, step), up(asked.toMs, step)]
  const beforeMs = fromMs - (toMs - fromMs)
  const until = await requestSumsUntil(db)
  const ranges = [
    { fromMs, toMs },
    { fromMs: beforeMs, toMs: fromMs },
  ] as const
  const [sources, sourcesBefore] = [sourcesOf(ranges[0], until), sourcesOf(ranges[1], until)]
  const stepMs = fine || toMs - fromMs <= hourlyMsMax ? step : dayMs
  const read = (range: Span, from: TrafficSources) =>
    trafficBySteps(db, stepMs === dayMs ? from : hourly(from, range), of, stepMs / 1_000)
  const [now, before, points, pointsBefore] = await Promise.all([
    trafficByName(db, sources, of),
    trafficByName(db, sourcesBefore, of),
    read(ranges[0], sources),
    read(ranges[1], sourcesBefore),
  ])
  const most = Math.max(...[...now, ...before].map(({ requests }) => requests), 0)
  const more =
    most >= trafficRowsMax &&
    (await Promise.all([hasMoreRows(db, sources.rows, of), hasMoreRows(db, sourcesBefore.rows, of)])).includes(true)
  return { fromMs, toMs, beforeMs, stepMs, now, before, points: [...pointsBefore, ...points], complete: !more }
}
