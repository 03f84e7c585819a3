import type { TrafficPoint } from '../../../protocol/wire/admin/inspect.ts'
import { amount, count, duration, nothing } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { type Column, LongTable } from '../../parts/long-table.tsx'
import { medianOf } from '../../parts/median.ts'
import { useNow } from '../../parts/small.tsx'
import { Empty } from '../../parts/states.tsx'
import type { Brush } from '../../plots/brush.ts'
import { HeatMap, type HeatStep } from '../../plots/heat-map.tsx'
import { type Line, LinePlot } from '../../plots/line-plot.tsx'
import { traffic } from '../../state/live.ts'
import { addressOf } from '../../state/place.ts'
import { MarkList, useMarks } from './traffic-marks.tsx'

/** A young gateway shows what there is; from then on the last 15 minutes. */
const spansMs = { least: 60_000, most: 900_000 } as const
const codesShownMax = 4
const minuteMs = 60_000
const liveOf = (model: string) => addressOf('traffic', null, { model })

type Points = readonly TrafficPoint[]
const perSecond = (value: number, point: TrafficPoint) => value / point.seconds
const modelOf = (point: TrafficPoint, model: string) => point.models.find((each) => each.model === model)

interface Chart {
  readonly title: string
  readonly lines: readonly Line[]
  readonly show: (value: number) => string
  readonly stacked?: boolean
  readonly whole?: boolean
}

function errorLines(points: Points): readonly Line[] {
  const totals = new Map<string, number>()
  for (const { errors } of points)
    for (const [code, times] of Object.entries(errors)) totals.set(code, (totals.get(code) ?? 0) + times)
  const codes = [...totals].toSorted((a, b) => b[1] - a[1]).map(([code]) => code)
  if (codes.length === 0) return [{ name: 'none', values: points.map(() => 0) }]
  const sumOf = (names: readonly string[]) =>
    points.map(({ errors }) => names.reduce((sum, code) => sum + (errors[code] ?? 0), 0))
  const [worst, rest] = [codes.slice(0, codesShownMax), codes.slice(codesShownMax)]
  const lines = worst.map((code) => ({ name: code, values: sumOf([code]) }))
  return rest.length === 0 ? lines : [...lines, { name: `${count(rest.length)} others`, values: sumOf(rest) }]
}

/** Several points are one step: a field of a heat map is to be seen. */
const pointsInStep = 6

/** How soon first tokens came, of one model or of all. */
function heatSteps(points: Points, model: string | null): readonly HeatStep[] {
  const stepMs = (points[0]?.seconds ?? 0) * 1_000 * pointsInStep
  const steps = Map.groupBy(points, ({ at }) => Math.floor(Date.parse(at) / stepMs) * stepMs)
  return [...steps].map(([atMs, inStep]) => {
    const of = inStep.flatMap(({ models }) => models.filter((each) => model === null || each.model === model))
    const buckets = Map.groupBy(
      of.flatMap(({ ttft_buckets: all }) => all),
      ({ above_ms: above, to_ms: to }) => `${above} ${to}`,
    )
    return {
      atMs,
      buckets: [...buckets.values()].map((same) => ({
        above_ms: same[0]?.above_ms ?? 0,
        to_ms: same[0]?.to_ms ?? 0,
        count: same.reduce((sum, each) => sum + each.count, 0),
      })),
    }
  })
}

const rate = (value: number) => `${amount(value)}/s`

function chartsOfAll(points: Points): readonly Chart[] {
  const of = (read: (point: TrafficPoint) => number | null) => points.map(read)
  return [
    { title: 'Requests', lines: [{ name: 'all', values: of((p) => perSecond(p.requests, p)) }], show: rate },
    {
      title: 'Time to first token',
      lines: [
        { name: 'p50', values: of((p) => p.ttft_ms?.p50 ?? null) },
        { name: 'p95', values: of((p) => p.ttft_ms?.p95 ?? null) },
      ],
      show: duration,
    },
    {
      title: 'Between chunks',
      lines: [
        { name: 'p50', values: of((p) => p.inter_chunk_ms?.p50 ?? null) },
        { name: 'p95', values: of((p) => p.inter_chunk_ms?.p95 ?? null) },
      ],
      show: duration,
    },
    {
      title: 'Tokens',
      lines: [
        { name: 'out', values: of((p) => perSecond(p.tokens_out, p)) },
        { name: 'in', values: of((p) => perSecond(p.tokens_in, p)) },
      ],
      show: rate,
    },
    {
      title: 'Work',
      lines: [
        { name: 'in flight', values: of((p) => p.in_flight) },
        { name: 'waiting', values: of((p) => p.queued) },
      ],
      show: count,
      whole: true,
    },
    { title: 'Errors, per 5 s', lines: errorLines(points), show: count, stacked: true, whole: true },
  ]
}

function chartsOfModel(points: Points, model: string): readonly Chart[] {
  const of = (
    read: (p: TrafficPoint, m: NonNullable<ReturnType<typeof modelOf>>) => number | null,
    none: number | null,
  ) =>
    points.map((point) => {
      const found = modelOf(point, model)
      return found === undefined ? none : read(point, found)
    })
  return [
    { title: 'Requests', lines: [{ name: model, values: of((p, m) => perSecond(m.requests, p), 0) }], show: rate },
    {
      title: 'Time to first token',
      lines: [{ name: 'p50', values: of((_, m) => m.ttft_p50_ms, null) }],
      show: duration,
    },
    {
      title: 'Between chunks',
      lines: [{ name: 'p50', values: of((_, m) => m.inter_chunk_p50_ms, null) }],
      show: duration,
    },
    { title: 'Tokens', lines: [{ name: 'out', values: of((p, m) => perSecond(m.tokens_out, p), 0) }], show: rate },
  ]
}

interface ModelSum {
  readonly model: string
  readonly requests: number
  readonly tokens: number
  readonly ttft: number | null
  readonly interChunk: number | null
}

function modelSums(points: Points): readonly ModelSum[] {
  const names = new Set(points.flatMap(({ models }) => models.map(({ model }) => model)))
  const sums = [...names].map((model) => ({
    model,
    requests: points.reduce((sum, point) => sum + (modelOf(point, model)?.requests ?? 0), 0),
    tokens: points.reduce((sum, point) => sum + (modelOf(point, model)?.tokens_out ?? 0), 0),
    ttft: medianOf(points.flatMap((point) => modelOf(point, model)?.ttft_buckets ?? [])),
    interChunk: medianOf(points.flatMap((point) => modelOf(point, model)?.inter_chunk_buckets ?? [])),
  }))
  return sums.toSorted((a, b) => b.requests - a.requests)
}

const columns: readonly Column<ModelSum>[] = [
  { title: 'Model', by: ({ model }) => model, show: ({ model }) => <a href={liveOf(model)}>{model}</a> },
  { title: 'Requests', number: true, by: ({ requests }) => requests, show: ({ requests }) => count(requests) },
  { title: 'Tokens out', number: true, by: ({ tokens }) => tokens, show: ({ tokens }) => count(tokens) },
  { title: 'First token, p50', number: true, by: ({ ttft }) => ttft, show: ({ ttft }) => duration(ttft) },
  {
    title: 'Between chunks, p50',
    number: true,
    by: ({ interChunk }) => interChunk,
    show: ({ interChunk }) => duration(interChunk),
  },
]

const Models = ({ sums }: { sums: readonly ModelSum[] }) => (
  <section aria-labelledby="by-model">
    <h2 id="by-model">By model</h2>
    <LongTable
      label="Models"
      rows={sums}
      keyOf={({ model }) => model}
      textOf={({ model }) => model}
      columns={columns}
      first={{ title: 'Requests', falling: true }}
    />
  </section>
)

const outcomes = ['succeeded', 'degraded', 'quorum_not_met', 'refused', 'cancelled', 'failed'] as const

function Strategies({ points }: { points: Points }) {
  const all = points.flatMap(({ strategies }) => strategies)
  const names = [...new Set(all.map(({ strategy }) => strategy))].toSorted()
  if (names.length === 0) return null
  const of = (strategy: string, outcome: string) =>
    all
      .filter((each) => each.strategy === strategy && each.outcome === outcome)
      .reduce((sum, each) => sum + each.count, 0)
  return (
    <section aria-labelledby="by-strategy">
      <h2 id="by-strategy">Mixtures by strategy</h2>
      <Frame label="By strategy">
        <table>
          <thead>
            <tr>
              <th scope="col">Strategy</th>
              {outcomes.map((outcome) => (
                <th scope="col" class="number" key={outcome}>
                  {outcome.replaceAll('_', ' ')}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((name) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {outcomes.map((outcome) => (
                  <td class="number" key={outcome}>
                    {of(name, outcome) === 0 ? nothing : count(of(name, outcome))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Frame>
    </section>
  )
}

/** The last 15 minutes, from the numbers that `/metrics` shows. `model`: of that one alone; null: of all. */
export function TrafficLive({ model, brush }: { model: string | null; brush: Brush }) {
  const points = traffic.value
  const sums = modelSums(points)
  const times = points.map(({ at }) => Date.parse(at))
  const coveredMs = (times.at(-1) ?? 0) - (times[0] ?? 0)
  const spanMs = Math.min(spansMs.most, Math.max(spansMs.least, coveredMs))
  const toMs = times.at(-1) ?? 0
  // Moves on with the minutes, not with each point.
  const marksFromMs = Math.floor((useNow(minuteMs) - spansMs.most) / minuteMs) * minuteMs
  const marks = useMarks(
    addressOf('', null, { from: new Date(marksFromMs).toISOString(), model: model ?? '' }).slice(1),
    JSON.stringify(['live', model]),
  )
  const shown = { fromMs: toMs - spanMs, toMs, brush, marks }
  if (points.length === 0) {
    return <Empty title="No point yet">The first point appears within 5 seconds of the start.</Empty>
  }
  return (
    <>
      <p class="muted">
        Last {duration(Math.round(spanMs / 1_000) * 1_000)}, a point every 5 s, the same numbers as /metrics
      </p>
      <div class="charts">
        {(model === null ? chartsOfAll(points) : chartsOfModel(points, model)).map((chart) => (
          <LinePlot key={chart.title} times={times} {...shown} {...chart} />
        ))}
        <HeatMap
          title="First tokens by how long they took"
          steps={heatSteps(points, model)}
          stepMs={(points[0]?.seconds ?? 0) * 1_000 * pointsInStep}
          {...shown}
        />
      </div>
      <MarkList marks={marks} />
      {sums.length > 0 && <Models sums={sums} />}
      <Strategies points={points} />
    </>
  )
}
