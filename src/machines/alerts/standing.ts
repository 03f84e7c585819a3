import { holding } from './evaluate.ts'
import type { Labels } from './expression.ts'
import { type History, labelsKey, type Reading } from './history.ts'
import type { Rule } from './rule.ts'

/** One series for which the condition of a rule holds. */
export interface Standing<R extends Rule = Rule> {
  readonly rule: R
  readonly labels: Labels
  readonly value: number
  /** Since when it holds without a pause, Unix ms. */
  readonly sinceMs: number
  /** Since when it fires; null: it has not held for long enough. */
  readonly firesSinceMs: number | null
}

/** Of one rule; the greatest values. */
const standingMax = 100

const greatest = (readings: readonly Reading[]): readonly Reading[] =>
  readings.toSorted((a, b) => b.value - a.value).slice(0, standingMax)

const keyOf = (name: string, labels: Labels) => `${name}\n${labelsKey(labels)}`

/** What holds at a moment, after what held at the moment before: as Prometheus, what pauses begins anew. */
export function standingAt<R extends Rule>(
  rules: readonly R[],
  history: History,
  atMs: number,
  before: readonly Standing<R>[],
): readonly Standing<R>[] {
  const known = new Map(before.map((each) => [keyOf(each.rule.name, each.labels), each]))
  return rules.flatMap((rule) =>
    greatest(holding(rule.condition, history, atMs)).map(({ labels, value }) => {
      const last = known.get(keyOf(rule.name, labels))
      const sinceMs = last?.sinceMs ?? atMs
      const fires = atMs - sinceMs >= rule.forMs
      return { rule, labels, value, sinceMs, firesSinceMs: fires ? (last?.firesSinceMs ?? atMs) : null }
    }),
  )
}
