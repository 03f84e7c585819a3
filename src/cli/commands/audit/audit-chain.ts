import { readFileSync, writeFileSync } from 'node:fs'
import type { AuditChain } from '../../../protocol/wire/admin/audit.ts'
import { action } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import { fields, table } from '../../frame/table.ts'

type Head = AuditChain['heads'][number]

function readHeads(file: string): readonly Head[] {
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as AuditChain).heads.filter(({ seq }) => Number.isInteger(seq))
  } catch {
    throw new CliFailure(`${file} contains no heads.`, ['Write one with: ./penstock audit chain --save FILE'])
  }
}

/** What was saved elsewhere and is missing now: the end of a chain, or a whole chain. */
function lostSince(kept: readonly Head[], now: readonly Head[]): readonly string[] {
  const heads = new Map(now.map((head) => [head.writer_id, head]))
  return kept.flatMap(({ writer_id, seq, mac }) => {
    const head = heads.get(writer_id)
    if (head === undefined) return [`The chain of writer ${writer_id} is missing (it had ${seq} events)`]
    if (head.seq < seq)
      return [`The chain of writer ${writer_id} ends at event ${head.seq}, but it once ended at ${seq}`]
    return head.seq === seq && head.mac !== mac ? [`The last event of writer ${writer_id} has changed`] : []
  })
}

/** The command asks for all heads, so that an old one that was saved is found. */
const path = '/v1/admin/audit/verify?limit=10000'

export const chain = action({
  about: 'Check the chains of approval and command events. The command fails if they are broken',
  options: {
    save: { kind: 'text', value: 'FILE', about: 'Save the heads to this file; best keep it on another computer' },
    against: {
      kind: 'text',
      value: 'FILE',
      about: 'Compare with heads that you saved, to find events that were cut off since',
    },
  },
  run: async ({ options, json }, session) => {
    const report = await session.gateway().admin<AuditChain>({ path })
    const lost = options.against === undefined ? [] : lostSince(readHeads(options.against), report.heads)
    const holds = report.holds && lost.length === 0
    session.show(json, { ...report, holds, lost }, (body) => {
      const summary = fields(session.terminal, [
        ['Chains', body.holds ? 'hold' : 'DO NOT HOLD'],
        ['Events', body.checked_event_count],
        ['Writers', body.writer_count],
        ...body.lost.map((what) => ['Lost', what] as const),
      ])
      if (body.faults.length === 0) return summary
      const rows = body.faults.map(({ kind, writer_id, at }) => [kind, writer_id, at])
      return `${summary}\n${table(session.terminal, ['FAULT', 'WRITER', 'AT'], rows)}`
    })
    // Heads of broken chains would make the next comparison worthless.
    if (holds && options.save !== undefined) writeFileSync(options.save, `${JSON.stringify(report, null, 2)}\n`)
    return holds ? undefined : 1
  },
})
