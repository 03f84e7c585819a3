import { conditionText, lengthText } from '../src/machines/alerts/expression.ts'
import type { Rule } from '../src/machines/alerts/rule.ts'
import { rules } from '../src/machines/alerts/rules.ts'
import { summaryTemplate } from '../src/machines/alerts/summary.ts'

const head = `# Alert rules for Prometheus: rule_files: [alerts.yaml]. The job is called penstock, as in prometheus.yaml. docs/operations/observe.md,
# "Alerts", says what each one means and what to do. Check them with: promtool check rules ops/alerts.yaml
# Written from src/machines/alerts by scripts/settings-table.ts; the gateway evaluates the same rules.
groups:
  - name: penstock
    rules:
`

const ruleText = ({ name, condition, forMs, severity, summary }: Rule): string =>
  [
    `      - alert: ${name}`,
    '        expr: >-',
    `          ${conditionText(condition)}`,
    ...(forMs === 0 ? [] : [`        for: ${lengthText(forMs)}`]),
    `        labels: { severity: ${severity} }`,
    '        annotations:',
    `          summary: ${JSON.stringify(summaryTemplate(summary))}`,
    '          runbook: docs/operations/observe.md#alerts',
    '',
  ].join('\n')

/** `ops/alerts.yaml`. */
export const alertsFile = (): string => head + rules.map(ruleText).join('\n')

/** The rows of the table of docs/operations/observe.md. */
export const alertRows = (): readonly (readonly string[])[] =>
  rules.map(({ name, when, mends }) => [`\`${name}\``, when, mends])
