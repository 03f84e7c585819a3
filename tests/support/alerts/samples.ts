import { expect } from 'bun:test'
import type { Labels, Matcher, Wanted } from '../../../src/machines/alerts/expression.ts'
import { History, labelsKey, type Reading } from '../../../src/machines/alerts/history.ts'
import { rules, wantedBy } from '../../../src/machines/alerts/rules.ts'

/** One series as a file of `promtool test rules` has it: `values` in its notation, one a minute. */
export interface Samples {
  readonly series: string
  readonly values: string
}

export const sampleEveryMs = 60_000
const wanted = wantedBy(rules)

/** `1+2x3`: 1, 3, 5, 7. `4x2`: 4, 4, 4. `_`: none. */
function valuesOf(text: string): readonly number[] {
  return text.split(' ').flatMap((part) => {
    if (part === '_') return [Number.NaN]
    const [, first = '', step = '0', times = '0'] = /^(-?[\d.]+)([+-][\d.]+)?(?:x(\d+))?$/.exec(part) ?? []
    expect(first).not.toBe('')
    return Array.from({ length: Number(times) + 1 }, (_, at) => Number(first) + at * Number(step))
  })
}

function parsed(series: string): { readonly metric: string; readonly labels: Labels } {
  const [, metric = '', list = ''] = /^([a-z_]+)(?:\{(.*)\})?$/.exec(series) ?? []
  const labels = [...list.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, value] as const)
  return { metric, labels: Object.fromEntries(labels) }
}

const fits =
  (labels: Labels) =>
  ([label, is, value]: Matcher) => {
    const has = labels[label] ?? ''
    return is === '=~' ? new RegExp(`^(?:${value})$`).test(has) : (has === value) === (is === '=')
  }

interface Played {
  readonly metric: string
  readonly labels: Labels
  readonly values: readonly number[]
}

/** What a registry with these series would have read of one selector. */
function readingsOf({ of, keep }: Wanted, at: number, samples: readonly Played[]): readonly Reading[] {
  const groups = new Map<string, { readonly labels: Labels; value: number }>()
  for (const { metric, labels, values } of samples) {
    const value = values[at]
    if (metric !== of.metric || value === undefined || Number.isNaN(value) || !of.where.every(fits(labels))) continue
    const kept =
      keep === null ? labels : Object.fromEntries(Object.entries(labels).filter(([name]) => keep.includes(name)))
    const known = groups.get(labelsKey(kept))
    if (known === undefined) groups.set(labelsKey(kept), { labels: kept, value })
    else known.value += value
  }
  return [...groups.values()]
}

/** The samples of each minute, one after the other; `look` is called after each. */
export function playSamples(samples: readonly Samples[], look: (history: History, atMs: number) => void): void {
  const history = new History(wanted, sampleEveryMs)
  const series = samples.map(({ series: name, values }) => ({ ...parsed(name), values: valuesOf(values) }))
  const length = Math.max(...series.map(({ values }) => values.length))
  for (let at = 0; at < length; at++) {
    history.add(at * sampleEveryMs, new Map(wanted.map((each) => [each.name, readingsOf(each, at, series)])))
    look(history, at * sampleEveryMs)
  }
}
