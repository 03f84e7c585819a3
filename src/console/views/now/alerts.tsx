import type { Alert, AlertList } from '../../../protocol/wire/alerts/alert-list.ts'
import { count, shortTime } from '../../parts/format.ts'
import { Pill } from '../../parts/small.tsx'
import { Part } from '../../parts/states.tsx'
import { useLoad } from '../../state/load.ts'
import { lookAt } from './look-at.ts'

/** As often as the gateway evaluates its rules. */
const everyMs = 15_000
const path = '/v1/admin/alerts'

/** Text in backticks is code. */
const Words = ({ text }: { text: string }) => (
  <>{text.split('`').map((part, at) => (at % 2 === 0 ? part : <code key={part + String(at)}>{part}</code>))}</>
)

const keyOf = ({ alert, labels }: Alert) => `${alert} ${JSON.stringify(labels)}`

function Row({ alert: { alert, severity, summary, mends, since, help_url: help } }: { readonly alert: Alert }) {
  const [address, words] = lookAt[alert] ?? [null, '']
  return (
    <li class="cause">
      <p>
        <Pill tone={severity === 'critical' ? 'bad' : 'warn'} text={severity} /> <strong>{summary}</strong>{' '}
        <code>{alert}</code>
      </p>
      <p>
        Since {shortTime(since)}. What helps: <Words text={mends} />.
      </p>
      <p class="links">
        {address !== null && <a href={address}>{words}</a>}
        <a href={help} target="_blank" rel="noreferrer">
          All alerts
        </a>
      </p>
    </li>
  )
}

/** Rules whose condition holds, and those that this gateway cannot evaluate. */
export function Alerts() {
  const [list, again] = useLoad<AlertList>(path, everyMs)
  return (
    <Part what="the alerts" loaded={list} again={again}>
      {({ alerts, rules, silent_processes: silent, series_left_out: leftOut }) => {
        const firing = alerts.filter(({ state }) => state === 'firing')
        const pending = alerts.filter(({ state }) => state === 'pending')
        const unseen = rules.filter(({ evaluated }) => !evaluated)
        return (
          <>
            {firing.length > 0 && (
              <ul class="causes" aria-label="Alerts">
                {firing.map((alert) => (
                  <Row key={keyOf(alert)} alert={alert} />
                ))}
              </ul>
            )}
            {pending.length > 0 && (
              <p class="muted">
                Not for long enough to be an alert: {pending.map(({ summary }) => summary).join('; ')}.
              </p>
            )}
            <p class="muted">
              {alerts.length === 0 && 'No alert. '}
              {count(rules.length - unseen.length)} of {count(rules.length)} rules are evaluated here.
              {silent > 0 && ` ${count(silent)} processes of the gateway did not say what they have counted.`}
              {leftOut > 0 && ` ${count(leftOut)} series of metrics are too many to look at.`}
            </p>
            {unseen.length > 0 && (
              <details>
                <summary>Rules that this gateway does not evaluate</summary>
                <ul>
                  {unseen.map(({ alert, when, why_not: why }) => (
                    <li key={alert}>
                      <code>{alert}</code>: {when}. {why}
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </>
        )
      }}
    </Part>
  )
}
