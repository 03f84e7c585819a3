import type { ApprovalPolicy } from '../../protocol/wire/admin/approval-policy.ts'
import type { AuditChain } from '../../protocol/wire/admin/audit.ts'
import type { AuditSummary } from '../../protocol/wire/admin/audit-summary.ts'
import { Check } from '../parts/check.tsx'
import { count, nothing, shortTime } from '../parts/format.ts'
import { Frame } from '../parts/frame.tsx'
import { Figure, Pill } from '../parts/small.tsx'
import { Empty, Part } from '../parts/states.tsx'
import { useLoad } from '../state/load.ts'

const everyMs = 30_000

const riskTones = { clear: 'good', watch: 'warn', review: 'bad' } as const
const riskTexts = {
  clear: 'Nothing stands out.',
  watch: 'More refusals or errors than usual, or more events than the sample holds.',
  review: 'Somebody should look at these actions.',
} as const

export function Audit() {
  return (
    <>
      <h1>Audit</h1>
      <SummaryPart />
      <Check<AuditChain> path="/v1/admin/audit/verify" what="Check the chains" say={chainsSaid} />
      <PolicyPart />
    </>
  )
}

const chainsSaid = ({ holds, checked_event_count, faults }: AuditChain) => ({
  good: holds,
  text: holds
    ? `The chains hold: nobody has changed or removed any of ${count(checked_event_count)} events.`
    : `The chains are broken: ${faults.map(({ kind, writer_id }) => `${kind} ${writer_id}`).join(', ')}`,
})

function SummaryPart() {
  const [summary, again] = useLoad<AuditSummary>('/v1/admin/audit/summary', everyMs)
  return (
    <Part what="the audit summary" loaded={summary} again={again}>
      {({ access, commands, risk, window_hours }) => (
        <section aria-labelledby="risk-title">
          <h2 id="risk-title">Last {window_hours} hours</h2>
          <p class={`verdict ${riskTones[risk.status]}`}>
            Risk <Pill tone={riskTones[risk.status]} text={risk.status} /> {riskTexts[risk.status]}
            {risk.review_actions.length > 0 && ` To look at: ${risk.review_actions.join(', ')}.`}
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

const words = (text: string) => text.replaceAll('_', ' ')

function PolicyPart() {
  const [policy, again] = useLoad<ApprovalPolicy>('/v1/admin/approval-policy', everyMs)
  return (
    <Part what="the approval policy" loaded={policy} again={again}>
      {({ actions, production_blocked_by: blockers, workflow_status }) => (
        <section aria-labelledby="policy-title">
          <h2 id="policy-title">Approval policy</h2>
          <p class={blockers.length === 0 ? 'verdict good' : 'verdict warn'}>
            Workflow <Pill tone={blockers.length === 0 ? 'good' : 'warn'} text={workflow_status} />
            {blockers.length === 0
              ? ' The policy is ready for production.'
              : ' These points are not ready for production:'}
          </p>
          {blockers.length > 0 && (
            <ul class="blockers">
              {blockers.map((blocker) => (
                <li key={blocker}>{words(blocker)}</li>
              ))}
            </ul>
          )}
          {actions.length === 0 ? (
            <Empty title="No action">Nobody changed anything in these hours.</Empty>
          ) : (
            <Frame label="Actions of the approval policy">
              <table class="cards">
                <thead>
                  <tr>
                    <th scope="col">Action</th>
                    <th scope="col">Role</th>
                    <th scope="col">Reason</th>
                    <th scope="col">Typed</th>
                    <th scope="col">Dry run</th>
                    <th scope="col">Now</th>
                    <th scope="col">In production</th>
                  </tr>
                </thead>
                <tbody>
                  {actions.map((action) => (
                    <tr key={action.action}>
                      <th scope="row">
                        <code>{action.action}</code>
                      </th>
                      <td data-label="Role">{action.required_role}</td>
                      <td data-label="Reason">{action.reason_required ? 'yes' : 'no'}</td>
                      <td data-label="Typed">
                        {action.typed_confirmation === null ? nothing : <code>{action.typed_confirmation}</code>}
                      </td>
                      <td data-label="Dry run">{action.dry_run_supported ? 'yes' : 'no'}</td>
                      <td data-label="Now">{words(action.current_enforcement)}</td>
                      <td data-label="In production">{words(action.production_requirement)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Frame>
          )}
        </section>
      )}
    </Part>
  )
}
