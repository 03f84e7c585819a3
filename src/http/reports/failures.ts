import { brand } from '../../brand.ts'
import type { FailureShare, FailureCluster as Found } from '../../db/queries/requests/request-failures.ts'
import { helpUrl, isProblemCode, Problem, problemKind } from '../../errors.ts'
import { AdminFailures, type FailureCluster } from '../../protocol/wire/admin/failures.ts'
import { dayMs, hourMs, isoTime } from '../../time.ts'
import { pageQuery, readRange } from '../frame/page.ts'
import { invalidParameter } from '../frame/query.ts'
import { adminRequestQuery } from '../frame/request-filter.ts'
import { report } from './report.ts'

const query = {
  from: pageQuery.from,
  to: pageQuery.to,
  node_id: adminRequestQuery.node_id,
  model: adminRequestQuery.model,
  customer_id: adminRequestQuery.customer_id,
  key_id: adminRequestQuery.key_id,
} as const
const daysMax = 7
const rangeMsDefault = hourMs

const plain = (shares: readonly FailureShare[]) => shares.map(({ name, requests }) => ({ name, requests }))

/** `open`: whether the reader may see whose requests they were. */
function view(found: Found, open: boolean, base: string): FailureCluster {
  const { code, status, distinct, most } = found
  const known = isProblemCode(code)
  return {
    status,
    code,
    title: known ? problemKind(code).title : code,
    help_url: known ? helpUrl(base, code) : null,
    requests: found.requests,
    first_at: isoTime(found.firstAt),
    last_at: isoTime(found.lastAt),
    request_id: found.requestId,
    model_count: distinct.model,
    node_count: distinct.node,
    key_count: distinct.key,
    customer_count: distinct.customer,
    models: plain(most.model),
    nodes: plain(most.node),
    keys: open ? plain(most.key) : [],
    customers: open ? plain(most.customer) : [],
  }
}

/** Why requests of a range failed (§32). */
export const failuresReport = report({
  action: 'request.failures',
  tag: 'Requests (extension)',
  summary: 'What failed in a range, by cause',
  description: `Requests that ended with a code though the client had not left, together where status and code are the same. Without \`from\` the last hour; at most ${daysMax} days.`,
  query,
  response: AdminFailures,
  read: async ({ gateway }, { query: asked, role, nowMs }) => {
    if (role === 'viewer' && (asked.customer_id !== null || asked.key_id !== null)) {
      throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
    }
    const range = readRange(asked)
    const toMs = range.to?.getTime() ?? nowMs
    const fromMs = range.from?.getTime() ?? toMs - rangeMsDefault
    if (fromMs >= toMs || toMs - fromMs > daysMax * dayMs) {
      throw invalidParameter('from', `must be before \`to\`, and at most ${daysMax} days before it`)
    }
    const of = { model: asked.model, nodeId: asked.node_id, customerId: asked.customer_id, keyId: asked.key_id }
    const { clusters, steps, stepMs, reachMs } = await gateway.requests.failures({ fromMs, toMs }, of)
    return {
      object: `${brand}.admin.failures` as const,
      generated_at: isoTime(nowMs),
      from: isoTime(reachMs === null ? fromMs : reachMs + 1),
      to: isoTime(toMs),
      kept_days: gateway.requests.days,
      complete: reachMs === null,
      count: clusters.length,
      step_seconds: stepMs / 1_000,
      points: steps.map(({ atMs, ...step }) => ({ at: isoTime(atMs), ...step })),
      failures: clusters.map((cluster) => view(cluster, role !== 'viewer', gateway.baseUrl())),
    }
  },
})
