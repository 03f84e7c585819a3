import type { AuditSummary } from '../../../protocol/wire/admin/audit-summary.ts'
import { count, shortTime } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Figure, Pill } from '../../parts/small.tsx'
import { Part } from '../../parts/states.tsx'
import { useLoad } from '../../state/load.ts'
import { addressOf } from '../../state/place.ts'

const everyMs = 30_000

const riskTones = { clear: 'good', watch: 'warn', review: 'bad' } as const
const riskTexts = {
  clear: 'Nothing stands out.',
  watch: 'More refusals or errors than usual, or more events than the sample holds.',
  review: 'Somebody should look at what stands out.',
} as const

/** Of the last day: how much, and what stands out. */
export function SummaryPart() {
  const [summary, again] = useLoad<AuditSummary>('/v1/admin/audit/summary', everyMs)
  return (
    <Part what="the audit summary" loaded={summary} again={again}>
      {({ access, commands, risk, window_hours }) => (
        <section aria-labelledby="risk-title">
          <h2 id="risk-title">Last {window_hours} hours</h2>
          <p class={`verdict ${riskTones[risk.status]}`}>
            Risk <Pill tone={riskTones[risk.status]} text={risk.status} /> {riskTexts[risk.status]}
            {risk.review_actions.length > 0 && ` Actions to look at: ${risk.review_actions.join(', ')}.`}
            {access.denied_count > 0 && (
              <>
                {' '}
                <a href={addressOf('audit', 'calls', { status_code: '403' })}>Calls that a role was not enough for</a>
              </>
            )}
          </p>
          <dl class="figures">
            <Figure name="Calls" value={count(access.count)} hint={access.truncated ? 'at least' : undefined} />
            <Figure name="Denied" value={count(access.denied_count)} />
            <Figure name="Failed" value={count(access.failed_count)} />
            <Figure name="Errors" value={count(access.error_count)} />
            <Figure name="Sensitive" value={count(access.sensitive_count)} />
            <Figure
              name="Commands"
              value={count(commands.count)}
              hint={`${count(commands.review_event_count)} to review`}
            />
          </dl>
          {access.recent_sensitive_events.length > 0 && <Sensitive events={access.recent_sensitive_events} />}
        </section>
      )}
    </Part>
  )
}

function Sensitive({ events }: { events: AuditSummary['access']['recent_sensitive_events'] }) {
  return (
    <Frame label="Recent sensitive calls">
      <table class="cards">
        <caption>Recent sensitive calls</caption>
        <thead>
          <tr>
            <th scope="col">Call</th>
            <th scope="col">Role</th>
            <th scope="col">Category</th>
            <th scope="col">Outcome</th>
            <th scope="col">At</th>
          </tr>
        </thead>
        <tbody>
          {events.map((event, at) => (
            <tr key={at}>
              <th scope="row">
                <code>
                  {event.method} {event.path_template}
                </code>
              </th>
              <td data-label="Role">{event.actor_role}</td>
              <td data-label="Category">{event.category}</td>
              <td data-label="Outcome">
                {event.outcome} ({event.status_code})
              </td>
              <td data-label="At">{shortTime(event.created_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Frame>
  )
}
