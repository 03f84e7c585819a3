import { brand } from '../../brand.ts'
import { type Cost, keyCosts, type LedgerGrouping, ledgerCosts } from '../../db/queries/money/costs.ts'
import { Costs } from '../../protocol/wire/money/costs.ts'
import { limitOf, oneOf } from '../../protocol/wire/query.ts'
import { dayMs, isoTime } from '../../time.ts'
import { cellsOf } from '../frame/csv.ts'
import { pageQuery, readRange } from '../frame/page.ts'
import { report } from './report.ts'

const columns = ['key', 'name', 'count', 'amount_wei', 'prompt_tokens', 'completion_tokens', 'refunded_wei'] as const
const groupings = ['customer', 'model', 'key', 'month'] as const

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
  summary: 'What was paid, by customer, model, key or month',
  description:
    'Debits from `from` to `to` (by default this month, UTC), and what was given back of them since. By key it comes from the records of requests, so only from `kept_from` on. Work on own nodes costs nothing and is not in it.',
  query: {
    by: oneOf(groupings, '`customer` (default), `model`, `key` or `month`'),
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
    const found =
      by === 'key'
        ? await keyCosts(gateway.db, range, query.limit + 1)
        : await ledgerCosts(gateway.db, by satisfies LedgerGrouping, range, query.limit + 1)
    const shown = found.slice(0, query.limit)
    return {
      object: `${brand}.admin.costs` as const,
      generated_at: isoTime(nowMs),
      by,
      from: isoTime(range.from),
      to: isoTime(range.to),
      kept_from: by === 'key' && range.from.getTime() < keptFromMs ? isoTime(keptFromMs) : null,
      count: shown.length,
      truncated: found.length > shown.length,
      costs: shown.map(view),
    }
  },
  csv: { name: 'costs', columns, rows: ({ costs: rows }) => rows.map((row) => cellsOf(row, columns)) },
})
