import { expect, test } from 'bun:test'
import { medianOf } from '../../../src/console/parts/median.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { TrafficPoint } from '../../../src/protocol/wire/admin/inspect.ts'
import type { AdminRequest, AdminRequestList } from '../../../src/protocol/wire/admin/requests.ts'
import { InspectReader } from '../../support/console/inspect-reader.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { metricSum, seriesOf } from '../../support/gateways/metric.ts'
import { fixture } from '../../support/run/fixture.ts'

const messages = [{ role: 'user', content: 'hello there' }]
const post = async (path: string, key: string, body: object) => {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await fetch(gateway.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  await response.text()
}

/** All ways to end: served as a stream and whole, on every dialect, failed on the way and refused before. */
async function ask(): Promise<number> {
  const { key } = customer
  const bodies: readonly (readonly [path: string, body: object])[] = [
    ['/v1/chat/completions', { model: 'm', messages }],
    ['/v1/chat/completions', { model: 'm', messages, stream: true }],
    ['/v1/chat/completions', { model: 'n', messages, stream: true }],
    ['/v1/messages', { model: 'm', messages, max_tokens: 50, stream: true }],
    ['/v1/responses', { model: 'm', input: 'hello', stream: true }],
    ['/v1/chat/completions', { model: 'broken', messages, stream: true }],
    ['/v1/chat/completions', { model: 'nobody-has-it', messages }],
    ['/v1/chat/completions', { model: 'm' }],
  ]
  for (let round = 0; round < 3; round++) {
    for (const [path, body] of bodies) {
      if ('model' in body && body.model === 'broken') nodes[1]?.setFaults({ kind: 'dropMidStream', afterChunks: 2 })
      await post(path, key, body)
      nodes[1]?.setFaults()
    }
  }
  await post('/v1/chat/completions', 'no-key', { model: 'm', messages })
  return 3 * bodies.length
}

const rows = async () => (await gateway.admin<AdminRequestList>('GET', '/v1/admin/requests?limit=1000')).requests
const sum = (values: readonly (number | null)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0)
const of = (all: readonly AdminRequest[], model: string) => all.filter((row) => row.model === model)

const gateway = await fixture(startTestGateway({ env: { SVC_METRICS_PUBLIC: 'true' } }))
const customer = await gateway.customer()
const nodes = await fixture([startFakeNode({ models: ['m', 'n'] }), startFakeNode({ models: ['m', 'broken'] })])
for (const { url } of nodes) await gateway.node(url, { customerId: customer.customerId })
nodes[1]?.setAnswer({ chunks: 5, firstTokenMs: 20, intervalMs: 1 })

test('§32: metrics and the live traffic count what the rows say', async () => {
  const headers = { 'x-svc-admin-token': gateway.tokens.viewer }
  const feed = new InspectReader(await fetch(`${gateway.url}/v1/admin/inspect`, { headers }))
  await feed.next('snapshot')
  const asked = await ask()
  const all = await rows()
  expect(all).toHaveLength(asked)
  expect(all.filter(({ code }) => code !== null).length).toBeGreaterThanOrEqual(9)
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  const points: TrafficPoint[] = []
  await feed.until('all of it in the live traffic', 'traffic', (point) => {
    points.push(point)
    return sum(points.map(({ requests }) => requests)) >= asked + 1
  })
  // A stranger is counted and has no row.
  expect(sum(points.map(({ requests }) => requests))).toBe(asked + 1)
  const live = (model: string) => points.flatMap(({ models }) => models.filter((each) => each.model === model))

  for (const model of ['m', 'n', 'broken']) {
    const own = of(all, model)
    const label = `gen_ai_request_model="${model}"`
    const firsts = own.flatMap(({ ttft_ms: ms }) => ms ?? [])
    expect({
      model,
      requests: metricSum(text, 'gen_ai_client_operation_duration_seconds_count', label),
      firsts: metricSum(text, 'gen_ai_server_time_to_first_token_seconds_count', label),
      read: metricSum(text, 'gen_ai_client_token_usage_sum', `${label},gen_ai_token_type="input"`),
      written: metricSum(text, 'gen_ai_client_token_usage_sum', `${label},gen_ai_token_type="output"`),
      live: sum(live(model).map(({ requests }) => requests)),
    }).toEqual({
      model,
      requests: own.length,
      firsts: firsts.length,
      read: sum(own.map(({ prompt_tokens }) => prompt_tokens)),
      written: sum(own.map(({ completion_tokens }) => completion_tokens)),
      live: own.length,
    })
    // The median of all steps lies in the bucket of the median of all rows.
    const buckets = live(model).flatMap(({ ttft_buckets }) => ttft_buckets)
    const median = firsts.toSorted((a, b) => a - b)[Math.ceil(firsts.length / 2) - 1] ?? Number.NaN
    const shown = medianOf(buckets) ?? Number.NaN
    const [bucket] = buckets.filter(({ above_ms, to_ms }) => above_ms <= shown && shown <= to_ms)
    // A row has whole milliseconds.
    expect(median).toBeGreaterThanOrEqual((bucket?.above_ms ?? Number.NaN) - 1)
    expect(median).toBeLessThanOrEqual((bucket?.to_ms ?? Number.NaN) + 1)
  }

  const codes = Map.groupBy(all, ({ code }) => code ?? '')
  codes.delete('')
  const expected = Object.fromEntries([...codes].map(([code, each]) => [code, each.length]))
  const counted = Object.fromEntries(
    [...seriesOf(text, 'svc_chat_errors_total')].map(([labels, count]) => [/code="(.*)"/.exec(labels)?.[1], count]),
  )
  const liveErrors: Record<string, number> = {}
  for (const { errors } of points) {
    for (const [code, count] of Object.entries(errors)) liveErrors[code] = (liveErrors[code] ?? 0) + count
  }
  const withStranger = { ...expected, invalid_api_key: 1 }
  expect(counted).toEqual(withStranger)
  expect(liveErrors).toEqual(withStranger)
  await feed.close()
})
