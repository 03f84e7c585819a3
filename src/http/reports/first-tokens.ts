import { brand } from '../../brand.ts'
import { AdminFirstTokens } from '../../protocol/wire/admin/traffic.ts'
import { isoTime } from '../../time.ts'
import { report } from './report.ts'
import { trafficQuery, trafficRange } from './traffic.ts'

/** How soon first tokens came, as counts by time and duration: what a heat map shows (§32). */
export const firstTokensReport = report({
  action: 'traffic.first_tokens',
  tag: 'Requests (extension)',
  summary: 'How soon first tokens came in a range',
  description:
    'Counts by step of time and by how long the first token took, in all, of one node or of one model. Ranges of more than three hours are read in whole hours.',
  query: trafficQuery,
  response: AdminFirstTokens,
  read: async ({ gateway: { requests } }, { query: asked, nowMs }) => {
    const range = trafficRange(asked, nowMs)
    const found = await requests.firstTokens(range, { nodeId: asked.node_id, model: asked.model })
    const { fromMs, toMs, stepMs, steps, unread } = found ?? { ...range, stepMs: 60_000, steps: [], unread: null }
    return {
      object: `${brand}.admin.first_tokens` as const,
      generated_at: isoTime(nowMs),
      from: isoTime(fromMs),
      to: isoTime(toMs),
      step_seconds: stepMs / 1_000,
      kept_days: requests.days,
      complete: unread === null,
      points: steps.map(({ atMs, buckets }) => ({
        at: isoTime(atMs),
        buckets: buckets.map(({ aboveMs, toMs, count }) => ({ above_ms: aboveMs, to_ms: toMs, count })),
      })),
    }
  },
})
