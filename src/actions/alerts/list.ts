import { AlertList, type AlertRule } from '../../protocol/wire/alerts/alert-list.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

const unseen = ({ alert, why_not: why }: AlertRule) => (why === null ? [] : `${alert} is not evaluated here: ${why}`)

/** What is wrong, by the rules that Prometheus has as well (§18). */
export const alertList = defineList({
  name: 'alert.list',
  at: 'GET /v1/admin/alerts',
  role: 'viewer',
  category: 'observability',
  summary: 'What is wrong now, by the rules of the alerts',
  description:
    'The gateway evaluates the rules of `ops/alerts.yaml` every 15 seconds over what all its processes have counted since they started, without a Prometheus. `rules` names those that it cannot evaluate, and says why.',
  tag: 'Extensions',
  query: { limit: limitOf(1_000, 10_000) },
  result: AlertList,
  rows: 'alerts',
  read: async ({ gateway, views, query: { limit } }) =>
    views.alertsView(gateway.alerts.current(), gateway.baseUrl()).slice(0, limit),
  beside: ({ alerts }, views) => views.alertsHead(alerts.current()),
  command: {
    words: 'alerts',
    about: 'Show what is wrong, by the rules of the alerts, and what to do',
    options: {},
    columns: [
      ['State', ({ state }) => state],
      ['Severity', ({ severity }) => severity],
      ['Alert', ({ alert }) => alert],
      ['Since', ({ since }, print) => print.time(since)],
      ['What', ({ summary }) => summary],
    ],
    empty: 'No rule of the alerts finds anything wrong.',
    note: ({ alerts, rules, evaluated_at: at, silent_processes: silent }) => {
      const lines = [
        ...new Set(alerts.map(({ alert, mends }) => `${alert}: ${mends}.`)),
        ...(at === null ? ['The rules have not been evaluated yet: the gateway has just started.'] : []),
        ...(silent === 0 ? [] : [`${silent} processes of the gateway did not say what they have counted.`]),
        ...rules.flatMap(unseen),
      ]
      return `\n${lines.join('\n')}\n`
    },
  },
})
