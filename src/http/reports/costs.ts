import { brand } from '../../brand.ts'
import {
  type Cost,
  type LedgerGrouping,
  ledgerCosts,
  type RecordGrouping,
  recordCosts,
} from '../../db/queries/money/costs.ts'
import { Costs } from '../../protocol/wire/money/costs.ts'
import { limitOf, oneOf } from '../../protocol/wire/query.ts'
import { dayMs, isoTime } from '../../time.ts'
import { cellsOf } from '../frame/csv.ts'
import { pageQuery, readRange } from '../frame/page.ts'
import { report } from './report.ts'

const columns = ['key', 'name', 'count', 'amount_wei', 'prompt_tokens', 'completion_tokens', 'refunded_wei'] as const
const groupings = ['customer', 'model', 'key', 'month', 'tag'] as const
/** The ledger knows neither: they come from the records of requests. */
const ofRecords: Readonly<Record<string, RecordGrouping | undefined>> = { key: 'key', tag: 'tag' }

const view = (cost: Cost) => ({
  key: cost.key,
  name: cost.name,
  count: cost.count,
  amount_wei: cost.amountWei,
  refunded_wei: cost.refundedWei,
  prompt_tokens: Number(cost.promptTokens),
  completion_tokens: Number(cost.completionTokens),
})

/** The first moment of this month, UTC. */
function monthStart(nowMs: number): Date {
  const now = new Date(nowMs)
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1))
}

/** What customers paid in a range, put together (§32). */
export const costs = report({
  action: 'billing.costs.read',
  tag: 'Money (extension)',
  summary: 'What was paid, by customer, model, key, month or tag',
  description:
    'Debits from `from` to `to` (by default this month, UTC), and what was given back of them since. By key and by tag it comes from the records of requests, so only from `kept_from` on. A request with several tags counts for each of them, one without any for none. Work on own nodes costs nothing and is not in it.',
  query: {
    by: oneOf(groupings, '`customer` (default), `model`, `key`, `month` or `tag`'),
    from: pageQuery.from,
    to: pageQuery.to,
    limit: limitOf(100, 1_000),
  },
  response: Costs,
  read: async ({ gateway }, { query, nowMs }) => {
    const given = readRange(query)
    // What was just paid is in it: its moment may be this very millisecond.
    const range = { from: given.from ?? monthStart(nowMs), to: given.to ?? new Date(nowMs + 1) }
    const by = (query.by ?? 'customer') as (typeof groupings)[number]
    const keptFromMs = nowMs - gateway.config.SVC_REQUEST_LOG_DAYS * dayMs
    const recorded = ofRecords[by]
    const found =
      recorded === undefined
        ? await ledgerCosts(gateway.db, by as LedgerGrouping, range, query.limit + 1)
        : await recordCosts(gateway.db, recorded, range, query.limit + 1)
    const shown = found.slice(0, query.limit)
    return {
      object: `${brand}.admin.costs` as const,
      generated_at: isoTime(nowMs),
      by,
      from: isoTime(range.from),
      to: isoTime(range.to),
      kept_from: recorded !== undefined && range.from.getTime() < keptFromMs ? isoTime(keptFromMs) : null,
      count: shown.length,
      truncated: found.length > shown.length,
      costs: shown.map(view),
    }
  },
  csv: { name: 'costs', columns, rows: ({ costs: rows }) => rows.map((row) => cellsOf(row, columns)) },
})
