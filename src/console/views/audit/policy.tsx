import type { ApprovalPolicy } from '../../../protocol/wire/admin/approval-policy.ts'
import { nothing } from '../../parts/format.ts'
import { Frame } from '../../parts/frame.tsx'
import { Pill } from '../../parts/small.tsx'
import { Empty, Part } from '../../parts/states.tsx'
import { useLoad } from '../../state/load.ts'

const everyMs = 30_000

const words = (text: string) => text.replaceAll('_', ' ')

/** What every action asks for, now and in production. */
export function PolicyPart() {
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
            <Empty title="No action" />
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
