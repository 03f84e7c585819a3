import type { AuditChain } from '../../../protocol/wire/admin/audit.ts'
import { ActMenu } from '../../actions/act-menu.tsx'
import { purgeAudit } from '../../actions/retention-acts.ts'
import { Check } from '../../parts/check.tsx'
import { count } from '../../parts/format.ts'
import { usePlace } from '../../state/place.ts'
import { EventLists } from './event-lists.tsx'
import { People } from './people.tsx'
import { PolicyPart } from './policy.tsx'
import { SummaryPart } from './summary.tsx'

const pages = [
  [null, 'Summary'],
  ['calls', 'Calls'],
  ['approvals', 'Approvals'],
  ['commands', 'Commands'],
  ['policy', 'Policy'],
  ['people', 'People'],
] as const

const chainsSaid = ({ holds, checked_event_count, faults }: AuditChain) => ({
  good: holds,
  text: holds
    ? `The chains hold: nobody has changed or removed any of ${count(checked_event_count)} events.`
    : `The chains are broken: ${faults.map(({ kind, writer_id }) => `${kind} ${writer_id}`).join(', ')}`,
})

/** What was done, who agreed to it, and what the policy asks for. */
export function Audit() {
  const { id, query } = usePlace()
  return (
    <>
      <div class="title-bar">
        <h1>Audit</h1>
        <div class="acts">
          <Check<AuditChain> path="/v1/admin/audit/verify" what="Check the chains" say={chainsSaid} />
          <ActMenu acts={[purgeAudit()]} on="the audit" />
        </div>
      </div>
      <nav class="pages" aria-label="Pages of the audit">
        {pages.map(([page, title]) => (
          <a
            key={title}
            href={page === null ? '#audit' : `#audit/${page}`}
            aria-current={page === id ? 'page' : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      {id === null && <SummaryPart />}
      {id === 'policy' && <PolicyPart />}
      {id === 'people' && <People />}
      {id !== null && id !== 'policy' && id !== 'people' && <EventLists page={id} query={query} />}
    </>
  )
}
