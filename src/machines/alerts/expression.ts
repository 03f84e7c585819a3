import { minuteMs, secondMs } from '../../time.ts'

export type Labels = Readonly<Record<string, string>>
export type Matcher = readonly [label: string, is: '=' | '!=' | '=~', value: string]

/** Series of one metric. */
export interface Selector {
  readonly metric: string
  readonly where: readonly Matcher[]
}

/**
 * What a rule looks at, written once: `promql` writes it for Prometheus, `evaluate.ts` computes it here. Each form means what the
 * PromQL means that is written of it.
 */
export type Expression =
  /** As it was read last. */
  | { readonly form: 'newest'; readonly of: Selector }
  /** Of counters: how fast they rise a second, how much they rose, and of gauges how often they changed. */
  | { readonly form: 'rate' | 'increase' | 'changes'; readonly of: Selector; readonly overMs: number }
  /** Series that agree in the labels `by`, together. */
  | { readonly form: 'sum' | 'max'; readonly by: readonly string[]; readonly of: Expression }
  /** Series with the same labels, one divided by the other. */
  | { readonly form: 'ratio'; readonly of: Expression; readonly to: Expression }
  /** Of a histogram's buckets. */
  | { readonly form: 'quantile'; readonly share: number; readonly of: Expression }
  /** 0 where there is no series. */
  | { readonly form: 'orZero'; readonly of: Expression }
  /** The lowest value of the last `overMs`, looked at every `everyMs`. */
  | { readonly form: 'lowest'; readonly of: Expression; readonly overMs: number; readonly everyMs: number }

/** What fires: a series whose value is so. */
export interface Condition {
  readonly of: Expression
  readonly is: '>' | '=='
  readonly than: number
}

export const series = (metric: string, ...where: readonly Matcher[]): Selector => ({ metric, where })
export const newest = (metric: string, ...where: readonly Matcher[]): Expression => ({
  form: 'newest',
  of: series(metric, ...where),
})
const over =
  (form: 'rate' | 'increase' | 'changes') =>
  (minutes: number, metric: string, ...where: readonly Matcher[]): Expression => ({
    form,
    of: series(metric, ...where),
    overMs: minutes * minuteMs,
  })
export const rate = over('rate')
export const increase = over('increase')
export const changes = over('changes')
export const sum = (of: Expression, ...by: readonly string[]): Expression => ({ form: 'sum', by, of })
export const max = (of: Expression, ...by: readonly string[]): Expression => ({ form: 'max', by, of })
export const ratio = (of: Expression, to: Expression): Expression => ({ form: 'ratio', of, to })
export const quantile = (share: number, of: Expression): Expression => ({ form: 'quantile', share, of })
export const orZero = (of: Expression): Expression => ({ form: 'orZero', of })
export const lowest = (minutes: number, everySeconds: number, of: Expression): Expression => ({
  form: 'lowest',
  of,
  overMs: minutes * minuteMs,
  everyMs: everySeconds * secondMs,
})

const units = [
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** `90m`, `1h`, `30s`: in the largest unit that it is a whole number of. */
export function lengthText(ms: number): string {
  for (const [unit, of] of units) if (ms % of === 0) return `${ms / of}${unit}`
  throw new Error(`${ms} ms is no whole number of seconds`)
}

/** The selector as PromQL. */
export function selected({ metric, where }: Selector): string {
  const matchers = where.map(([label, is, value]) => `${label}${is}${JSON.stringify(value)}`)
  return matchers.length === 0 ? metric : `${metric}{${matchers.join(',')}}`
}

/** What has to stand in parentheses before it is divided or compared. */
const loose = ({ form }: Expression) => form === 'ratio'

export function promql(expression: Expression): string {
  switch (expression.form) {
    case 'newest':
      return selected(expression.of)
    case 'rate':
    case 'increase':
    case 'changes':
      return `${expression.form}(${selected(expression.of)}[${lengthText(expression.overMs)}])`
    case 'sum':
    case 'max': {
      const by = expression.by.length === 0 ? '' : ` by (${expression.by.join(', ')}) `
      return `${expression.form}${by}(${promql(expression.of)})`
    }
    case 'ratio': {
      const side = (of: Expression) => (loose(of) ? `(${promql(of)})` : promql(of))
      return `${side(expression.of)} / ${side(expression.to)}`
    }
    case 'quantile':
      return `histogram_quantile(${expression.share}, ${promql(expression.of)})`
    case 'orZero':
      return `(${promql(expression.of)} or vector(0))`
    case 'lowest': {
      const inner = expression.of.form === 'ratio' ? `(${promql(expression.of)})` : promql(expression.of)
      return `min_over_time(${inner}[${lengthText(expression.overMs)}:${lengthText(expression.everyMs)}])`
    }
  }
}

export const conditionText = ({ of, is, than }: Condition): string => `${promql(of)} ${is} ${than}`

/** What has to be read for an expression. */
export interface Wanted {
  /** By which the readings of it are found. */
  readonly name: string
  readonly of: Selector
  /** The labels that the expression looks at; null: all. The others are summed up while they are read. */
  readonly keep: readonly string[] | null
  /** How long a reading is needed, ms. */
  readonly keptMs: number
}

/** As Prometheus has it: an older value does not count. */
export const staleMs = 5 * minuteMs

const isRise = ({ form }: Expression) => form === 'rate' || form === 'increase'

/** The name of the readings of a selector. */
export const wantedName = (of: Selector, keep: readonly string[] | null): string =>
  keep === null ? selected(of) : `sum by (${keep.join(', ')}) (${selected(of)})`

/** What an expression reads. `keep`: the labels that what stands around it looks at. */
export function wantedOf(expression: Expression, keep: readonly string[] | null = null, moreMs = 0): readonly Wanted[] {
  switch (expression.form) {
    case 'newest':
    case 'rate':
    case 'increase':
    case 'changes': {
      const keptMs = moreMs + ('overMs' in expression ? expression.overMs : staleMs)
      return [{ name: wantedName(expression.of, keep), of: expression.of, keep, keptMs }]
    }
    case 'sum':
      // Within a process a counter only rises, so the sum of several rises as they do together.
      return wantedOf(expression.of, isRise(expression.of) ? expression.by : null, moreMs)
    case 'ratio':
      return [...wantedOf(expression.of, null, moreMs), ...wantedOf(expression.to, null, moreMs)]
    case 'lowest':
      return wantedOf(expression.of, null, moreMs + expression.overMs)
    default:
      return wantedOf(expression.of, null, moreMs)
  }
}
