import type { AlertsNow } from '../../../actors/console/alert-watch.ts'
import { conditionText } from '../../../machines/alerts/expression.ts'
import { rules } from '../../../machines/alerts/rules.ts'
import type { Standing } from '../../../machines/alerts/standing.ts'
import { summaryText, withoutLinks } from '../../../machines/alerts/summary.ts'
import type { Alert, AlertList, AlertRule } from '../../../protocol/wire/alerts/alert-list.ts'
import { isoTime } from '../../../time.ts'

const helpPath = '/docs/operations/observe#alerts'
const noMetric = 'This computer does not have the metric that the rule looks at.'

/** Critical ones before warnings, what fires before what may, the oldest first. */
const order = (a: Standing, b: Standing) =>
  Number(b.rule.severity === 'critical') - Number(a.rule.severity === 'critical') ||
  Number(b.firesSinceMs !== null) - Number(a.firesSinceMs !== null) ||
  a.sinceMs - b.sinceMs

export const alertsView = ({ standing }: AlertsNow, base: string): readonly Alert[] =>
  standing.toSorted(order).map(({ rule, labels, value, sinceMs, firesSinceMs }) => ({
    alert: rule.name,
    severity: rule.severity,
    state: firesSinceMs === null ? 'pending' : 'firing',
    summary: summaryText(rule.summary, labels, value),
    mends: withoutLinks(rule.mends),
    help_url: base + helpPath,
    value: Number.isFinite(value) ? value : null,
    labels,
    since: isoTime(sinceMs),
    fires_since: firesSinceMs === null ? null : isoTime(firesSinceMs),
  }))

function rulesView(blind: AlertsNow['blind']): AlertRule[] {
  return rules.map((rule) => {
    const why = rule.outside ?? (blind.includes(rule) ? noMetric : null)
    return {
      alert: rule.name,
      severity: rule.severity,
      when: withoutLinks(rule.when),
      expression: conditionText(rule.condition),
      for_seconds: rule.forMs / 1_000,
      evaluated: why === null,
      why_not: why,
    }
  })
}

export const alertsHead = ({
  atMs,
  blind,
  silent,
  leftOut,
}: AlertsNow): Omit<AlertList, 'object' | 'generated_at' | 'count' | 'alerts'> => ({
  evaluated_at: atMs === null ? null : isoTime(atMs),
  silent_processes: silent,
  series_left_out: leftOut,
  rules: rulesView(blind),
})
