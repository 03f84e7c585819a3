import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { medianOf } from '../../../src/console/parts/median.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { Fault } from '../../../src/fake-node/faults.ts'
import type { TrafficPoint } from '../../../src/protocol/wire/admin/inspect.ts'
import type { AdminRequest, AdminRequestList } from '../../../src/protocol/wire/admin/requests.ts'
import type { AdminTraffic } from '../../../src/protocol/wire/admin/traffic.ts'
import { hourMs } from '../../../src/time.ts'
import { parseCsv } from '../../support/clients/csv.ts'
import { InspectReader } from '../../support/console/inspect-reader.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { metricSum, seriesOf } from '../../support/gateways/metric.ts'
import { fixture } from '../../support/run/fixture.ts'

/** How a request ends: what its node does, and whether it is a stream. */
const ways = {
  whole: { stream: false, fault: null },
  streamed: { stream: true, fault: null },
  slow: { stream: true, fault: { kind: 'slowFirstToken', ms: 30 } },
  cut: { stream: true, fault: { kind: 'dropMidStream', afterChunks: 2 } },
  'cut before its first token': { stream: true, fault: { kind: 'dropMidStream', afterChunks: 0 } },
  failed: { stream: false, fault: { kind: 'status500' } },
} as const satisfies Record<string, { readonly stream: boolean; readonly fault: Fault | null }>
type Way = keyof typeof ways
const all = Object.keys(ways) as Way[]
const failing: readonly Way[] = ['cut', 'cut before its first token', 'failed']

/** Each has a model of its own, by which its rows are found. */
const runs = 16
const models = Array.from({ length: runs }, (_, at) => `model-${at}`)
/** The first ones are drawn always: no request, one, and only such as fail. */
const certain: readonly (readonly Way[])[] = [[], ['streamed'], ['failed', 'cut before its first token', 'cut']]
const traffic = fc.array(fc.oneof(fc.constantFrom(...all), fc.constantFrom(...failing)), { maxLength: 6 })

const env = { SVC_METRICS_PUBLIC: 'true', SVC_ADMIN_RPM_PER_TOKEN: '1000000' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
const node = await fixture(startFakeNode({ models, answer: { chunks: 4, intervalMs: 1 } }))
await gateway.node(node.url, { customerId: customer.customerId })
const headers = { 'x-svc-admin-token': gateway.tokens.viewer }
const feed = await fixture(new InspectReader(await fetch(`${gateway.url}/v1/admin/inspect`, { headers })))
await feed.next('snapshot')

const sum = (values: readonly (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0)
const known = (values: readonly (number | null)[]) => values.filter((value) => value !== null)
const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? null

async function ask(model: string, way: Way): Promise<void> {
  const { stream, fault } = ways[way]
  if (fault !== null) node.setFaults({ ...fault, match: model })
  const messages = [{ role: 'user', content: 'hello there' }]
  const answered = await gateway.chat(customer.key, { model, stream, messages })
  await answered.text().catch(() => '')
  node.setFaults()
}

async function table(model: string): Promise<readonly Record<string, string>[]> {
  const headers = { 'x-svc-admin-token': gateway.tokens.operator }
  const answer = await fetch(`${gateway.url}/v1/admin/requests?format=csv&model=${model}`, { headers })
  const [columns = [], ...lines] = parseCsv(await answer.text())
  return lines.map((cells) => Object.fromEntries(cells.map((cell, at) => [columns[at] ?? '', cell])))
}

const shown = ['request_id', 'status', 'code', 'ttft_ms', 'duration_ms', 'prompt_tokens', 'completion_tokens'] as const
const asText = (row: AdminRequest) => Object.fromEntries(shown.map((name) => [name, String(row[name] ?? '')]))

/** `/v1/admin/traffic`, which the console's view shows: counts are exact, times are those of a row to 5 %. */
async function trafficAgrees(model: string, rows: readonly AdminRequest[]): Promise<void> {
  const from = new Date(Date.now() - hourMs).toISOString()
  const { now } = await gateway.admin<AdminTraffic>('GET', `/v1/admin/traffic?from=${from}&model=${model}`)
  expect(now).toMatchObject({
    requests: rows.length,
    failed: rows.filter(({ code, status }) => code !== null && status !== 499).length,
    prompt_tokens: sum(rows.map(({ prompt_tokens }) => prompt_tokens)),
    completion_tokens: sum(rows.map(({ completion_tokens }) => completion_tokens)),
  })
  const firsts = known(rows.map(({ ttft_ms }) => ttft_ms))
  const durations = rows.map(({ duration_ms }) => duration_ms)
  const times = [
    [now.ttft_p50_ms, percentile(firsts, 0.5)],
    [now.ttft_p95_ms, percentile(firsts, 0.95)],
    [now.duration_p50_ms, percentile(durations, 0.5)],
    [now.duration_p95_ms, percentile(durations, 0.95)],
  ] as const
  for (const [seen, exact] of times) {
    if (exact === null) expect(seen).toBeNull()
    else expect(Math.abs((seen ?? Number.NaN) - exact)).toBeLessThanOrEqual(exact * 0.05 + 0.5)
  }
}

/** A row has whole milliseconds, so that at the edge of a bucket it may lie on either side. */
function bucketsAgree(text: string, model: string, firsts: readonly number[]): void {
  const series = seriesOf(text, 'gen_ai_server_time_to_first_token_seconds_bucket')
  for (const [labels, count] of series) {
    if (!labels.includes(`gen_ai_request_model="${model}"`)) continue
    const toMs = Number(/le="([^"]+)"/.exec(labels)?.[1]?.replace('+Inf', 'Infinity')) * 1_000
    expect(count).toBeGreaterThanOrEqual(firsts.filter((ms) => ms + 1 <= toMs).length)
    const most = firsts.filter((ms) => ms - 1 <= toMs).length
    expect(count).toBeLessThanOrEqual(most)
  }
}

async function metricsAgree(model: string, rows: readonly AdminRequest[]): Promise<void> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  const label = `gen_ai_request_model="${model}"`
  const firsts = known(rows.map(({ ttft_ms }) => ttft_ms))
  expect({
    requests: metricSum(text, 'gen_ai_client_operation_duration_seconds_count', label),
    firsts: metricSum(text, 'gen_ai_server_time_to_first_token_seconds_count', label),
    read: metricSum(text, 'gen_ai_client_token_usage_sum', `${label},gen_ai_token_type="input"`),
    written: metricSum(text, 'gen_ai_client_token_usage_sum', `${label},gen_ai_token_type="output"`),
  }).toEqual({
    requests: rows.length,
    firsts: firsts.length,
    read: sum(rows.map(({ prompt_tokens }) => prompt_tokens)),
    written: sum(rows.map(({ completion_tokens }) => completion_tokens)),
  })
  bucketsAgree(text, model, firsts)
}

/** What the console's live page has added up: counts, tokens and the median of the first tokens. */
function liveAgrees(points: readonly TrafficPoint[], model: string, rows: readonly AdminRequest[]): void {
  const own = points.flatMap((point) => point.models.filter((each) => each.model === model))
  expect({
    model,
    requests: sum(own.map(({ requests }) => requests)),
    written: sum(own.map(({ tokens_out }) => tokens_out)),
  }).toEqual({
    model,
    requests: rows.length,
    written: sum(rows.map(({ completion_tokens }) => completion_tokens)),
  })
  const buckets = own.flatMap(({ ttft_buckets }) => ttft_buckets)
  const seen = medianOf(buckets)
  const exact = percentile(known(rows.map(({ ttft_ms }) => ttft_ms)), 0.5)
  expect(seen === null).toBe(exact === null)
  if (seen === null || exact === null) return
  const [bucket] = buckets.filter(({ above_ms, to_ms }) => above_ms <= seen && seen <= to_ms)
  expect(exact).toBeGreaterThanOrEqual((bucket?.above_ms ?? Number.NaN) - 1)
  expect(exact).toBeLessThanOrEqual((bucket?.to_ms ?? Number.NaN) + 1)
}

test('§32: after any traffic, also none, one and only failures, every figure is a count over the rows', async () => {
  const rowsOf = new Map<string, readonly AdminRequest[]>()
  let at = 0
  const check = async (asked: readonly Way[]) => {
    const model = models[at++ % runs] ?? ''
    for (const way of asked) await ask(model, way)
    const list = `/v1/admin/requests?limit=1000&model=${model}`
    const { requests: rows } = await gateway.admin<AdminRequestList>('GET', list)
    // A shrunk case asks the model of an earlier one again, whose rows are there, too.
    if (at <= runs) expect(rows).toHaveLength(asked.length)
    expect((await table(model)).map((row) => Object.fromEntries(shown.map((name) => [name, row[name]])))).toEqual(
      rows.map(asText),
    )
    await trafficAgrees(model, rows)
    await metricsAgree(model, rows)
    rowsOf.set(model, rows)
  }
  const examples = certain.map((asked): [Way[]] => [[...asked]])
  await fc.assert(fc.asyncProperty(traffic, check), { numRuns: runs, examples })

  const rows = [...rowsOf.values()].flat()
  expect(rows.some(({ ttft_ms }) => ttft_ms === null)).toBe(true)
  expect(rows.some(({ code, ttft_ms }) => code !== null && ttft_ms !== null)).toBe(true)
  const points: TrafficPoint[] = []
  await feed.until('all of it in the live traffic', 'traffic', (point) => {
    points.push(point)
    return sum(points.map(({ requests }) => requests)) >= rows.length
  })
  for (const [model, own] of rowsOf) liveAgrees(points, model, own)
  const codes = rows.flatMap(({ code }) => code ?? [])
  const told = sum(points.flatMap(({ errors }) => Object.values(errors)))
  expect(told).toBe(codes.length)
})
