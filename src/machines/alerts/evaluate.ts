import { type Condition, type Expression, type Labels, type Selector, wantedName } from './expression.ts'
import { type History, labelsKey, type Point, type Reading } from './history.ts'
import { type Bucket, changesOf, quantileOf, riseOf } from './over-time.ts'

type Rise = Extract<Expression, { readonly overMs: number; readonly of: Selector }>

/** An expression at one moment: what `promql` writes of it, computed as Prometheus does. */
export function evaluate(
  expression: Expression,
  history: History,
  atMs: number,
  keep: readonly string[] | null = null,
): readonly Reading[] {
  const inner = (of: Expression, kept: readonly string[] | null = null) => evaluate(of, history, atMs, kept)
  switch (expression.form) {
    case 'newest':
      return history.of(wantedName(expression.of, keep)).newest(atMs)
    case 'rate':
    case 'increase':
    case 'changes':
      return overTime(expression, history, atMs, keep)
    case 'sum': {
      const { by, of } = expression
      const found = inner(of, of.form === 'rate' || of.form === 'increase' ? by : null)
      return grouped(found, by, (values) => values.reduce((all, each) => all + each, 0))
    }
    case 'max':
      return grouped(inner(expression.of), expression.by, (values) => Math.max(...values))
    case 'ratio':
      return divided(inner(expression.of), inner(expression.to))
    case 'quantile':
      return quantiles(expression.share, inner(expression.of))
    case 'orZero': {
      const found = inner(expression.of)
      return found.length > 0 ? found : [{ labels: {}, value: 0 }]
    }
    case 'lowest':
      return lowestOf(expression, history, atMs)
  }
}

/** The series for which the condition holds at a moment. */
export function holding({ of, is, than }: Condition, history: History, atMs: number): readonly Reading[] {
  return evaluate(of, history, atMs).filter(({ value }) => (is === '>' ? value > than : value === than))
}

function overTime(
  { form, of, overMs }: Rise,
  history: History,
  atMs: number,
  keep: readonly string[] | null,
): readonly Reading[] {
  const found: Reading[] = []
  const amountOf = (points: readonly Point[]): number | null => {
    if (form === 'changes') return changesOf(points)
    const rise = riseOf(points, atMs - overMs, atMs)
    return rise === null || form === 'increase' ? rise : rise / (overMs / 1_000)
  }
  for (const { labels, points } of history.of(wantedName(of, keep)).ranges(atMs - overMs, atMs)) {
    const value = amountOf(points)
    if (value !== null) found.push({ labels, value })
  }
  return found
}

const only = (labels: Labels, names: readonly string[]): Labels =>
  Object.fromEntries(names.flatMap((name) => (labels[name] === undefined ? [] : [[name, labels[name]]])))

function grouped(
  readings: readonly Reading[],
  by: readonly string[],
  together: (values: readonly number[]) => number,
): readonly Reading[] {
  const groups = new Map<string, { readonly labels: Labels; readonly values: number[] }>()
  for (const { labels, value } of readings) {
    const kept = only(labels, by)
    const key = labelsKey(kept)
    const group = groups.get(key) ?? { labels: kept, values: [] }
    groups.set(key, group)
    group.values.push(value)
  }
  return [...groups.values()].map(({ labels, values }) => ({ labels, value: together(values) }))
}

function divided(readings: readonly Reading[], by: readonly Reading[]): readonly Reading[] {
  const divisors = new Map(by.map(({ labels, value }) => [labelsKey(labels), value]))
  return readings.flatMap(({ labels, value }) => {
    const divisor = divisors.get(labelsKey(labels))
    return divisor === undefined ? [] : [{ labels, value: value / divisor }]
  })
}

function quantiles(share: number, readings: readonly Reading[]): readonly Reading[] {
  const groups = new Map<string, { readonly labels: Labels; readonly buckets: Bucket[] }>()
  for (const { labels, value } of readings) {
    const { le, ...rest } = labels
    if (le === undefined) continue
    const key = labelsKey(rest)
    const group = groups.get(key) ?? { labels: rest, buckets: [] }
    groups.set(key, group)
    group.buckets.push({ bound: le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le), count: value })
  }
  return [...groups.values()].map(({ labels, buckets }) => ({ labels, value: quantileOf(share, buckets) }))
}

/** Looked at whole multiples of `everyMs` of the clock, as Prometheus does. */
function lowestOf(
  { of, overMs, everyMs }: Extract<Expression, { readonly form: 'lowest' }>,
  history: History,
  atMs: number,
): readonly Reading[] {
  const found = new Map<string, Reading>()
  for (let lookMs = Math.floor(atMs / everyMs) * everyMs; lookMs > atMs - overMs; lookMs -= everyMs) {
    for (const reading of evaluate(of, history, lookMs)) {
      const key = labelsKey(reading.labels)
      const lowest = found.get(key)
      if (lowest === undefined || reading.value < lowest.value) found.set(key, reading)
    }
  }
  return [...found.values()]
}
