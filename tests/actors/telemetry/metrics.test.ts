import { expect, test } from 'bun:test'
import { type ChatSample, chatRoute, createMetrics } from '../../../src/actors/telemetry/metrics.ts'

const sample: ChatSample = {
  status: 200,
  durationS: 1.5,
  ttftS: 0.05,
  promptTokens: 20,
  completionTokens: 300,
  model: 'm',
  nodeId: null,
  queueS: 0,
  cacheShare: null,
  stream: true,
  code: null,
}
const lines = async (metrics: ReturnType<typeof createMetrics>) => (await metrics.text()).split('\n')

test('§18: chat requests by status, with the buckets of OpenTelemetry', async () => {
  const metrics = createMetrics()
  metrics.operation(chatRoute)(sample)
  metrics.operation(chatRoute)({ ...sample, status: 499, ttftS: null, completionTokens: 0 })
  metrics.operation(chatRoute)({ ...sample, status: 401, model: null })
  const route = 'route="/v1/api/chat/completions",method="POST"'
  const labels = 'gen_ai_operation_name="chat",gen_ai_provider_name="svc",gen_ai_request_model="m"'
  for (let scrape = 0; scrape < 2; scrape++) {
    const text = await lines(metrics)
    for (const status of [200, 401, 499])
      expect(text).toContain(`svc_http_requests_total{${route},status="${status}"} 1`)
    expect(text).toContain(`svc_http_request_duration_seconds_count{${route}} 3`)
    expect(text).toContain(`gen_ai_client_operation_duration_seconds_count{${labels}} 2`)
    expect(text).toContain(`gen_ai_client_operation_duration_seconds_bucket{${labels},le="1.28"} 0`)
    expect(text).toContain(`gen_ai_client_operation_duration_seconds_bucket{${labels},le="2.56"} 2`)
    expect(text).toContain(`gen_ai_server_time_to_first_token_seconds_count{${labels}} 1`)
    expect(text).toContain(`gen_ai_client_token_usage_sum{${labels},gen_ai_token_type="input"} 40`)
    expect(text).toContain(`gen_ai_client_token_usage_sum{${labels},gen_ai_token_type="output"} 300`)
    expect(text).toContain(`gen_ai_client_token_usage_bucket{${labels},gen_ai_token_type="output",le="67108864"} 1`)
  }
})

test('§18: refusals by code, and the time of a token of a stream; the totals are the same numbers', async () => {
  const metrics = createMetrics()
  metrics.operation(chatRoute)(sample)
  metrics.operation(chatRoute)({ ...sample, stream: false })
  metrics.operation(chatRoute)({ ...sample, completionTokens: 1 })
  metrics.operation(chatRoute)({ ...sample, status: 429, code: 'rate_limited', model: null, ttftS: null })
  metrics.upstreamFailure('upstream_error')
  metrics.mixture('vote', 'degraded')
  const text = await lines(metrics)
  const labels = 'gen_ai_operation_name="chat",gen_ai_provider_name="svc",gen_ai_request_model="m"'
  const perToken = 'gen_ai_server_time_per_output_token_seconds'
  expect(text).toContain('svc_chat_errors_total{code="rate_limited"} 1')
  expect(text).toContain(`${perToken}_count{${labels}} 1`)
  expect(text.find((line) => line.startsWith(`${perToken}_sum`))).toEndWith(` ${1.45 / 299}`)
  const totals = await metrics.totals()
  expect(totals).toMatchObject({
    requests: 4,
    errors: { rate_limited: 1 },
    upstreamFailures: { upstream_error: 1 },
    mixtures: [{ strategy: 'vote', outcome: 'degraded', count: 1 }],
  })
  const model = totals.models.get('m')
  expect(model).toMatchObject({ requests: 3, tokensIn: 60, tokensOut: 601 })
  expect(model?.ttft.reduce((sum, count) => sum + count, 0)).toBe(3)
  expect(model?.perToken.reduce((sum, count) => sum + count, 0)).toBe(1)
})

test('§18: a value on a bound belongs to its bucket, one beyond the last to +Inf', async () => {
  const metrics = createMetrics()
  metrics.operation(chatRoute)({ ...sample, durationS: 0.01, promptTokens: 67_108_865 })
  const text = (await lines(metrics)).filter((line) => line.startsWith('gen_ai'))
  expect(text.find((line) => line.includes('duration') && line.includes('le="0.01"'))).toEndWith('} 1')
  expect(text.find((line) => line.includes('input') && line.includes('le="67108864"'))).toEndWith('} 0')
  expect(text.find((line) => line.includes('input') && line.includes('le="+Inf"'))).toEndWith('} 1')
})

test('§18: at most 1000 models and 64 failure codes get a series of their own, the rest is `other`', async () => {
  const metrics = createMetrics()
  for (let i = 0; i < 1_100; i++) metrics.operation(chatRoute)({ ...sample, model: `m-${i}` })
  for (let i = 0; i < 70; i++) metrics.upstreamFailure(`code_${i}`)
  const text = await lines(metrics)
  const named = (start: string) => text.filter((line) => line.startsWith(start))
  expect(named('gen_ai_client_operation_duration_seconds_count')).toHaveLength(1_001)
  expect(named('gen_ai_client_operation_duration_seconds_count').find((line) => line.includes('"other"'))).toEndWith(
    '} 100',
  )
  expect(named('svc_upstream_failures_total{')).toHaveLength(65)
  expect(named('svc_upstream_failures_total{code="other"}')).toEqual(['svc_upstream_failures_total{code="other"} 6'])
})

test('§18: nodes, queue, calls and receipts are read when somebody asks', async () => {
  const metrics = createMetrics()
  let ready = 2
  metrics.observe({ nodes: () => ({ ready, offline: 1 }), inFlight: () => 3, queued: () => 4 })
  metrics.observe({ receiptsWritten: () => 5, receiptsDropped: () => 1 })
  expect(await lines(metrics)).toContain('svc_nodes{state="ready"} 2')
  ready = 0
  const text = await lines(metrics)
  for (const line of [
    'svc_nodes{state="ready"} 0',
    'svc_nodes{state="offline"} 1',
    'svc_requests_in_flight 3',
    'svc_requests_queued 4',
    'svc_receipts_written_total 5',
    'svc_receipts_dropped_total 1',
  ]) {
    expect(text).toContain(line)
  }
})

test('§18: open private jobs by status, with a 0 where there is none; no series while the database is away', async () => {
  const metrics = createMetrics()
  let away = false
  metrics.observe({
    jobs: async () => (away ? Promise.reject(new Error('away')) : { queued: 3 }),
    jobsRunning: () => 2,
    jobClaims: () => 7,
  })
  const text = await lines(metrics)
  for (const line of ['queued"} 3', 'dispatched"} 0', 'running"} 0']) expect(text).toContain(`svc_jobs{status="${line}`)
  expect(text).toContain('svc_jobs_attended 2')
  expect(text).toContain('svc_job_claims_total 7')
  metrics.webhookAttempt('delivered')
  away = true
  const later = await lines(metrics)
  expect(later.filter((line) => line.startsWith('svc_jobs{'))).toEqual([])
  expect(later).toContain('svc_webhook_attempts_total{result="delivered"} 1')
})
