import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AlertName } from '../../../src/machines/alerts/rules.ts'
import { rules } from '../../../src/machines/alerts/rules.ts'
import { type Standing, standingAt } from '../../../src/machines/alerts/standing.ts'
import { summaryText } from '../../../src/machines/alerts/summary.ts'
import { playSamples, sampleEveryMs } from '../../support/alerts/samples.ts'
import { type AlertCase, alertCases } from './cases.ts'

/** What fires at each minute of a case. */
function played({ samples }: AlertCase): ReadonlyMap<number, readonly Standing[]> {
  const found = new Map<number, readonly Standing[]>()
  let standing: readonly Standing[] = []
  playSamples(samples, (history, atMs) => {
    standing = standingAt(rules, history, atMs, standing)
    found.set(
      atMs / sampleEveryMs,
      standing.filter(({ firesSinceMs }) => firesSinceMs !== null),
    )
  })
  return found
}

const names = Object.keys as <K extends string>(of: Readonly<Partial<Record<K, unknown>>>) => K[]

test('§18: each rule fires on what it is about, when it has lasted for long enough, and on nothing beside it', () => {
  expect(new Set(alertCases.flatMap(({ fires }) => names(fires)))).toEqual(new Set(rules.map(({ name }) => name)))
  for (const each of alertCases) {
    const found = played(each)
    for (const name of names(each.fires)) {
      const summaries = Object.keys(each.fires[name] ?? {}).map((minute) => [
        minute,
        (found.get(Number(minute)) ?? [])
          .filter(({ rule }) => rule.name === name)
          .map(({ rule, labels, value }) => summaryText(rule.summary, labels, value)),
      ])
      expect({ name, fires: Object.fromEntries(summaries) }).toEqual({ name, fires: { ...each.fires[name] } })
    }
  }
})

/** The same as a test of `promtool`: everything that fires here, with its labels, at every tenth minute and at those of the case. */
function promtoolTest(each: AlertCase): object {
  const found = played(each)
  const severity = new Map(rules.map((rule) => [rule.name as AlertName, rule.severity]))
  const looks = rules.flatMap(({ name, summary }) => {
    const own = names(each.fires[name as AlertName] ?? {}).map(Number)
    const minutes = [...new Set([...own, ...Array.from({ length: 12 }, (_, at) => at * 10)])]
    return minutes.map((minute) => ({
      eval_time: `${minute}m`,
      alertname: name,
      exp_alerts: (found.get(minute) ?? [])
        .filter(({ rule }) => rule.name === name)
        .map(({ labels, value }) => ({
          exp_labels: { ...labels, severity: severity.get(name) },
          exp_annotations: {
            summary: summaryText(summary, labels, value),
            runbook: 'docs/operations/observe.md#alerts',
          },
        })),
    }))
  })
  return { interval: '1m', input_series: each.samples, alert_rule_test: looks }
}

const promtool = Bun.which('promtool')

test.skipIf(promtool === null)('§18: Prometheus finds the same in the same samples, and its own file of cases', () => {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-alerts-'))
  const ops = join(import.meta.dir, '../../../ops')
  try {
    const file = join(folder, 'cases.json')
    const tests = alertCases.map(promtoolTest)
    writeFileSync(file, JSON.stringify({ rule_files: [join(ops, 'alerts.yaml')], evaluation_interval: '1m', tests }))
    const ran = Bun.spawnSync([promtool ?? '', 'test', 'rules', file, join(ops, 'alerts.test.yaml')])
    expect([ran.exitCode, ran.stderr.toString()]).toEqual([0, ''])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
