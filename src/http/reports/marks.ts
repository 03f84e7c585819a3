import { brand } from '../../brand.ts'
import { changeMarks } from '../../db/queries/audit/change-marks.ts'
import { AdminMarks } from '../../protocol/wire/admin/traffic.ts'
import { isoTime } from '../../time.ts'
import { report } from './report.ts'
import { trafficQuery, trafficRange } from './traffic.ts'

/** A plot with more of them shows nothing else. */
export const marksMax = 200

/** What was done in a range: marks beside what went through (§32). */
export const marksReport = report({
  action: 'traffic.marks',
  tag: 'Requests (extension)',
  summary: 'What was changed in a range: starts, drains, loads, prices',
  description: `From the audit, and from the gateway's own starts: the newest ${marksMax}, oldest first. With a node or a model, only what concerns it, and the starts.`,
  query: trafficQuery,
  response: AdminMarks,
  read: async ({ gateway: { db } }, { query: asked, nowMs }) => {
    const { fromMs, toMs } = trafficRange(asked, nowMs)
    const of = { from: new Date(fromMs), to: new Date(toMs), nodeId: asked.node_id, model: asked.model }
    const { marks, complete } = await changeMarks(db, of, marksMax)
    return {
      object: `${brand}.admin.marks` as const,
      generated_at: isoTime(nowMs),
      from: isoTime(fromMs),
      to: isoTime(toMs),
      count: marks.length,
      complete,
      marks: marks.map(({ at, kind, nodeId, model, prices }) => ({
        at: isoTime(at),
        kind,
        node_id: nodeId,
        model,
        prices: prices === null ? null : [...prices],
      })),
    }
  },
})
