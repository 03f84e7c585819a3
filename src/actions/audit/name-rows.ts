import { brand } from '../../brand.ts'
import { RowsNamed } from '../../protocol/wire/admin/audit.ts'
import { defineAction } from '../frame/define-action.ts'

/** After an upgrade from a version whose events did not say what their targets were, or a purge (§36). */
export const nameRows = defineAction({
  name: 'audit.rows.name',
  at: 'POST /v1/admin/audit/rows',
  policy: { role: 'admin', category: 'audit', target: 'audit_events', requirement: 'reason_and_second_approver' },
  summary: 'Vouch for the rows that no audit event has named',
  description:
    'Writes one event for each customer, node without an agent, named token and the catalogue whose last event does not say what it is, at most 2,000 at a time. When all have one (`all_named`), `audit books` takes no customer and no named token without an event any more. Look at them first: what was changed before is vouched for, too.',
  tag: 'Audit (extension)',
  result: RowsNamed,
  run: async ({ gateway, audit }) => {
    const { named, all } = await gateway.nameRows(audit)
    return { object: `${brand}.admin.rows_named`, named_count: named, all_named: all } as const
  },
  command: {
    words: 'audit name-rows',
    about: 'Vouch for rows that no audit event has named, after an upgrade or a purge',
  },
})
