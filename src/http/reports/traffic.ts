import type { Measure, NamedMeasure, Traffic } from '../../actors/requests/request-traffic.ts'
import { brand } from '../../brand.ts'
import { AdminTraffic, type TrafficMeasure } from '../../protocol/wire/admin/traffic.ts'
import type { QueryValues } from '../../protocol/wire/query.ts'
import { dayMs, isoTime } from '../../time.ts'
import { pageQuery, readRange } from '../frame/page.ts'
import { invalidParameter } from '../frame/query.ts'
import { adminRequestQuery } from '../frame/request-filter.ts'
import { report } from './report.ts'

export const trafficQuery = {
  from: pageQuery.from,
  to: pageQuery.to,
  node_id: adminRequestQuery.node_id,
  model: adminRequestQuery.model,
} as const
/** As many days as requests can be kept. */
const daysMax = 365
const rangeMsDefault = dayMs

/** What a report is asked for, Unix ms. */
export function trafficRange(asked: QueryValues<typeof trafficQuery>, nowMs: number) {
  const range = readRange(asked)
  const toMs = range.to?.getTime() ?? nowMs
  const fromMs = range.from?.getTime() ?? toMs - rangeMsDefault
  if (fromMs >= toMs || toMs - fromMs > daysMax * dayMs) {
    throw invalidParameter('from', `must be before \`to\`, and at most ${daysMax} days before it`)
  }
  return { fromMs, toMs }
}

const none: Measure = {
  requests: 0,
  failed: 0,
  promptTokens: 0,
  completionTokens: 0,
  ttftP50: null,
  ttftP95: null,
  durationP50: null,
  durationP95: null,
}
const view = (measure: Measure): TrafficMeasure => ({
  requests: measure.requests,
  failed: measure.failed,
  prompt_tokens: measure.promptTokens,
  completion_tokens: measure.completionTokens,
  ttft_p50_ms: measure.ttftP50,
  ttft_p95_ms: measure.ttftP95,
  duration_p50_ms: measure.durationP50,
  duration_p95_ms: measure.durationP95,
})

/** Each name of either range, with both measures. */
function compared({ now, before }: Pick<Traffic, 'now' | 'before'>, kind: NamedMeasure['kind']) {
  const byName = (all: readonly NamedMeasure[]) =>
    new Map(all.filter((each) => each.kind === kind).map((each) => [each.name, each]))
  const [here, earlier] = [byName(now), byName(before)]
  return [...new Set([...here.keys(), ...earlier.keys()])].map((name) => ({
    name,
    now: view(here.get(name) ?? none),
    before: view(earlier.get(name) ?? none),
  }))
}

const nothing = (fromMs: number, toMs: number): Traffic => ({
  fromMs,
  toMs,
  beforeMs: fromMs - (toMs - fromMs),
  stepMs: 60_000,
  now: [],
  before: [],
  points: [],
  unread: [],
})

/** The requests of a range, beside those of the range before (§32). */
export const trafficReport = report({
  action: 'traffic.read',
  tag: 'Requests (extension)',
  summary: 'What the requests of a range came to',
  description:
    'In all, by node and by model, with percentiles, beside the range of the same length before it. Ranges of more than three hours are read in whole hours.',
  query: trafficQuery,
  response: AdminTraffic,
  read: async ({ gateway: { requests } }, { query: asked, nowMs }) => {
    const range = trafficRange(asked, nowMs)
    const of = { nodeId: asked.node_id, model: asked.model }
    const found = (await requests.traffic(range, of)) ?? nothing(range.fromMs, range.toMs)
    const [all] = compared(found, 'all')
    return {
      object: `${brand}.admin.traffic` as const,
      generated_at: isoTime(nowMs),
      from: isoTime(found.fromMs),
      to: isoTime(found.toMs),
      before_from: isoTime(found.beforeMs),
      step_seconds: found.stepMs / 1_000,
      kept_days: requests.days,
      complete: found.unread.length === 0,
      unread: found.unread.map(({ fromMs, toMs }) => ({ from: isoTime(fromMs), to: isoTime(toMs) })),
      now: all?.now ?? view(none),
      before: all?.before ?? view(none),
      points: found.points.map(({ atMs, ...measure }) => ({ at: isoTime(atMs), ...view(measure) })),
      nodes: compared(found, 'node').map(({ name, ...both }) => ({ node_id: name, ...both })),
      models: compared(found, 'model').map(({ name, ...both }) => ({ model: name, ...both })),
    }
  },
})
