import type { Database } from '../../db/client.ts'
import { type FirstTokenStep, firstTokensBySteps } from '../../db/queries/requests/request-first-tokens.ts'
import {
  makeRequestSums,
  type NamedMeasure,
  type PointMeasure,
  requestSumsUntil,
  type Span,
  type TrafficOf,
  type TrafficSources,
  trafficByName,
  trafficBySteps,
  unreadPart,
} from '../../db/queries/requests/request-traffic.ts'
import { dayMs, hourMs, minuteMs } from '../../time.ts'

export type { FirstTokenStep } from '../../db/queries/requests/request-first-tokens.ts'
export type { Measure, NamedMeasure, PointMeasure, TrafficOf } from '../../db/queries/requests/request-traffic.ts'

/** Up to here a range is read from its rows alone, to the minute. */
const fineMsMax = 3 * hourMs
/** Up to here its points are hours. */
const hourlyMsMax = 14 * dayMs
/** Most requests of an hour are over by then. For those that end later, the hour is summed up again in the next round. */
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
  /** The range had too many requests: only newer ones were read. */
  readonly unread: readonly Span[]
}

const down = (ms: number, step: number) => Math.floor(ms / step) * step
const up = (ms: number, step: number) => Math.ceil(ms / step) * step
const nowhere: Span = { fromMs: 0, toMs: 0 }

/** Of one model on one node there are no sums. */
const isSummed = ({ nodeId, model }: TrafficOf, stepMs: number) =>
  stepMs !== minuteMs && (nodeId === null || model === null)

/** Whole days where they are summed up, hours where those are, rows behind them; rows alone where nothing is `summed` up. */
function sourcesOf(
  { fromMs, toMs }: Span,
  summed: boolean,
  until: { readonly hoursMs: number; readonly daysMs: number },
): TrafficSources {
  if (!summed) return { days: nowhere, hours: [], rows: { fromMs, toMs } }
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

/** The steps in which a range is read: minutes of a short one, whole hours of a long one. */
function spanOf(asked: Span): Span & { readonly stepMs: number } {
  const stepMs = asked.toMs - asked.fromMs <= fineMsMax ? minuteMs : hourMs
  const [fromMs, toMs] = [down(asked.fromMs, stepMs), up(asked.toMs, stepMs)]
  return { fromMs, toMs, stepMs: stepMs === minuteMs || toMs - fromMs <= hourlyMsMax ? stepMs : dayMs }
}

/** A range and the one before it. A long one is read in whole hours. */
export async function readTraffic(db: Database, asked: Span, of: TrafficOf): Promise<Traffic> {
  const { fromMs, toMs, stepMs } = spanOf(asked)
  const beforeMs = fromMs - (toMs - fromMs)
  const until = await requestSumsUntil(db, down(beforeMs, hourMs))
  const ranges = [
    { fromMs, toMs },
    { fromMs: beforeMs, toMs: fromMs },
  ] as const
  const [sources, sourcesBefore] = [
    sourcesOf(ranges[0], isSummed(of, stepMs), until),
    sourcesOf(ranges[1], isSummed(of, stepMs), until),
  ]
  const stepped = (from: TrafficSources, range: Span) => (stepMs === dayMs ? from : hourly(from, range))
  const [now, before, points, ...unread] = await Promise.all([
    trafficByName(db, sources, of),
    trafficByName(db, sourcesBefore, of),
    // At once: a day in which one range ends and the other begins is one step.
    trafficBySteps(db, [stepped(sourcesBefore, ranges[1]), stepped(sources, ranges[0])], of, stepMs / 1_000),
    unreadPart(db, sourcesBefore.rows, of),
    unreadPart(db, sources.rows, of),
  ])
  return { fromMs, toMs, beforeMs, stepMs, now, before, points, unread: unread.filter((part) => part !== null) }
}

export interface FirstTokens extends Span {
  readonly stepMs: number
  /** Oldest first; a step without a first token is left out. */
  readonly steps: readonly FirstTokenStep[]
  /** The range had too many requests: only newer ones were read; null: all were. */
  readonly unread: Span | null
}

/** How soon first tokens came in a range, by the steps of `readTraffic`. */
export async function readFirstTokens(db: Database, asked: Span, of: TrafficOf): Promise<FirstTokens> {
  const { stepMs, ...range } = spanOf(asked)
  const sources = sourcesOf(range, isSummed(of, stepMs), await requestSumsUntil(db, down(range.fromMs, hourMs)))
  const [steps, unread] = await Promise.all([
    firstTokensBySteps(db, [stepMs === dayMs ? sources : hourly(sources, range)], of, stepMs / 1_000),
    unreadPart(db, sources.rows, of),
  ])
  return { ...range, stepMs, steps, unread }
}
