import { expect, test } from 'bun:test'
import { quantile } from '../../../src/actors/console/quantile.ts'
import { createTraffic, trafficBetween } from '../../../src/actors/console/traffic.ts'
import { chatRoute, createMetrics } from '../../../src/actors/telemetry/metrics.ts'
import { createLog } from '../../../src/log.ts'
import { isoTime, minuteMs } from '../../../src/time.ts'
import { VirtualClock } from '../../support/run/virtual-clock.ts'

const sample = {
  status: 200,
  durationS: 1,
  ttftS: 0.05,
  promptTokens: 10,
  completionTokens: 20,
  model: 'm',
  nodeId: null,
  queueS: 0,
  cacheShare: null,
  stream: true,
  code: null,
}

test('a quantile is read as Prometheus reads it', () => {
  const bounds = [1, 2, 4]
  expect(quantile(0.5, Float64Array.of(0, 4, 0, 0), bounds)).toBe(1.5)
  expect(quantile(0.5, Float64Array.of(2, 0, 2, 0), bounds)).toBe(1)
  expect(quantile(0.95, Float64Array.of(0, 0, 0, 3), bounds)).toBe(4)
  expect(quantile(0.5, Float64Array.of(0, 0, 0, 0), bounds)).toBeNull()
})

test('§18: a step is what happened between two readings, per model, per strategy, per code', async () => {
  const metrics = createMetrics()
  metrics.operation(chatRoute)(sample)
  metrics.mixture('vote', 'succeeded')
  const before = await metrics.totals()
  metrics.operation(chatRoute)({ ...sample, ttftS: 0.05 })
  metrics.operation(chatRoute)({ ...sample, model: 'n', ttftS: 2, durationS: 3 })
  metrics.operation(chatRoute)({ ...sample, status: 429, code: 'rate_limited', model: null, ttftS: null })
  metrics.mixture('vote', 'succeeded')
  metrics.mixture('vote', 'degraded')
  metrics.observe({ inFlight: () => 3, queued: () => 2 })
  const point = trafficBetween(before, await metrics.totals(), 1_800_000_000_000, 5)
  expect(point).toMatchObject({
    seconds: 5,
    requests: 3,
    errors: { rate_limited: 1 },
    upstream_failures: {},
    tokens_in: 20,
    tokens_out: 40,
    in_flight: 3,
    queued: 2,
    strategies: [
      { strategy: 'vote', outcome: 'succeeded', count: 1 },
      { strategy: 'vote', outcome: 'degraded', count: 1 },
    ],
  })
  expect(point.models.map(({ model, requests }) => [model, requests])).toEqual([
    ['m', 1],
    ['n', 1],
  ])
  expect(point.models[0]?.ttft_p50_ms).toBeGreaterThan(40)
  expect(point.models[0]?.ttft_p50_ms).toBeLessThanOrEqual(60)
  expect(point.ttft_ms?.p95).toBeGreaterThan(1_000)
  expect(point.inter_chunk_ms?.p50).toBeGreaterThan(25)
})

/** A series on a clock of its own. */
function virtualTraffic(totals = createMetrics().totals) {
  const clock = new VirtualClock()
  const log = createLog('silent', () => {})
  return { clock, traffic: createTraffic({ totals, log, clock, now: () => clock.now() }) }
}

test('the ring holds 15 minutes and no more; a quiet step is one of zeros', async () => {
  const { clock, traffic } = virtualTraffic()
  traffic.start()
  await clock.pass(15 * minuteMs)
  expect(traffic.points()).toHaveLength(180)
  expect(traffic.points()[0]).toMatchObject({ at: isoTime(5_000), seconds: 5, requests: 0, ttft_ms: null, errors: {} })
  await clock.pass(5_000)
  expect(traffic.points()).toHaveLength(180)
  expect(traffic.points()[0]).toMatchObject({ at: isoTime(10_000), models: [] })
  traffic.stop()
  expect(clock.waits).toEqual([])
})

test('a reading that fails is left out, and the next point covers its step, too', async () => {
  const { totals } = createMetrics()
  let readings = 0
  const { clock, traffic } = virtualTraffic(() => (++readings === 3 ? Promise.reject(new Error('away')) : totals()))
  traffic.start()
  await clock.pass(15_000)
  expect(traffic.points().map(({ at, seconds }) => [at, seconds])).toEqual([
    [isoTime(5_000), 5],
    [isoTime(15_000), 10],
  ])
})
