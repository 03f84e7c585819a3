import type { ChainReport } from '../../../actors/audit/audit-check.ts'
import { exportChain } from '../../../actors/audit/audit-export.ts'
import { brand } from '../../../brand.ts'
import { AuditChain } from '../../../protocol/wire/admin/audit.ts'
import { AuditExport } from '../../../protocol/wire/admin/audit-export.ts'
import { filter, idFilter, limitOf } from '../../../protocol/wire/query.ts'
import { isoTime } from '../../../time.ts'
import { report } from '../../reports/report.ts'

function chainView(checked: ChainReport, limit: number, nowMs: number): AuditChain {
  // In this order the last tombstone of each writer remains.
  const purged = new Map(checked.tombstones.map((stone) => [stone.writerId, stone]))
  return {
    object: `${brand}.admin.audit_chain`,
    generated_at: isoTime(nowMs),
    holds: checked.faults.length === 0,
    checked_event_count: checked.events,
    writer_count: checked.heads.length,
    faults: checked.faults.map(({ kind, writerId, at }) => ({ kind, writer_id: writerId, at })),
    heads: checked.heads
      .toReversed()
      .slice(0, limit)
      .map((head) => {
        const stone = purged.get(head.writerId)
        return {
          writer_id: head.writerId,
          ordinal: head.ordinal,
          seq: head.seq,
          mac: head.mac.toString('hex'),
          key_id: head.keyId,
          last_event_at: isoTime(head.lastAt),
          purged_seq: stone?.seq ?? null,
          purged_at: stone === undefined ? null : isoTime(stone.purgedAt),
        }
      }),
  }
}

const tag = 'Audit (extension)'

/** Whether the chains hold (§16, §23). */
export const auditVerdict = report({
  action: 'audit.chain.verify',
  tag,
  summary: 'Check the chains of approval and command events',
  description: 'Reads every event. `limit` bounds the number of heads in the answer.',
  query: { limit: limitOf(1_000, 10_000) },
  response: AuditChain,
  read: async ({ gateway }, { query: { limit }, nowMs }) => chainView(await gateway.checkAuditChains(), limit, nowMs),
})

export const auditExport = report({
  action: 'audit.chain.export',
  tag,
  summary: 'Export a chain of the audit, for `verify audit`',
  description:
    'Events of one writer as their MACs cover them, at most 1,000, from `after` on; `next_after` continues. Without `after` the ends of all chains enter the public log first.',
  query: {
    writer_id: idFilter('Whose chain; the heads of `/v1/admin/audit/verify` name them'),
    after: filter('Events behind this number', '^(0|[1-9][0-9]{0,14})$', 'a whole number'),
  },
  response: AuditExport,
  read: async ({ gateway }, { query: { writer_id: writerId, after } }) => {
    // The ends as they are now are in the log before they are handed out (§31).
    if (after === null) await gateway.sequencer.catchUp({ heads: true })
    const chain = writerId === null ? null : await exportChain(gateway.db, writerId, Number(after ?? '0'))
    return { object: `${brand}.admin.audit_export` as const, chain }
  },
})
