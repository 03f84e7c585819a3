import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { problemKinds } from '../src/errors.ts'
import { logRequest, type RequestLine } from '../src/http/frame/request-log.ts'
import { createLog } from '../src/log.ts'
import { waitUntil } from './support/run/wait-until.ts'

const text = fc.oneof(
  fc.constantFrom('', 'a\nb\r\t\0\u001f\u2028', '"\\', '\ud800', '§ü😀', '{}', '}\n{"level":"error"}'),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('é'.repeat(20_000), 'x'.repeat(60_000)),
)
const fields = fc.dictionary(
  fc.constantFrom('a', 'b', 'node_id', 'é'),
  fc.oneof({ weight: 5, arbitrary: text }, fc.integer(), fc.boolean(), fc.constantFrom(null, undefined)),
)
const said = fc.record({
  rank: fc.constantFrom('debug', 'info', 'warn', 'error'),
  fields: fc.option(fields, { nil: undefined }),
})

const stranger: RequestLine = {
  requestId: 'req_1',
  route: '/v1/a',
  method: 'GET',
  status: 401,
  code: null,
  latencyMs: 1,
  stranger: true,
}

const written = (value: unknown) => JSON.parse(JSON.stringify(value ?? {}))
const linesOf = (texts: readonly string[]) => texts.join('').split('\n').slice(0, -1)

test('§18: every line is one JSON object, in the order of what was said, whatever stands in it and however long it is', () => {
  fc.assert(
    fc.property(fc.array(said), fields, (all, always) => {
      const texts: string[] = []
      const log = createLog('info', (lines) => texts.push(lines), { ...always, process: 1 })
      for (const [at, { rank, fields: given }] of all.entries()) log[rank](`event_${at}`, given)
      log.flush()
      const expected = all.flatMap(({ rank, fields: given }, at) =>
        rank === 'debug'
          ? []
          : [{ level: rank, event: `event_${at}`, ...written(always), process: 1, ...written(given) }],
      )
      const lines = linesOf(texts).map((line) => JSON.parse(line))
      expect(lines.map(({ ts, ...rest }) => rest)).toEqual(expected)
      for (const { ts } of lines) expect(new Date(ts).toISOString()).toBe(ts)
    }),
    { numRuns: 50 },
  )
})

test('§18: lines are written together, at once behind an error, and by themselves after a while', async () => {
  const written: string[] = []
  const log = createLog('info', (lines) => written.push(lines))
  log.info('one')
  log.info('two')
  expect(written).toEqual([])
  log.error('three')
  expect(written).toHaveLength(1)
  expect(linesOf(written).map((line) => JSON.parse(line).event)).toEqual(['one', 'two', 'three'])
  log.info('four')
  await waitUntil('the line to be written', () => written.length === 2)
  for (let at = 0; at < 10_000; at++) log.info('many', { at })
  log.flush()
  expect(written.length).toBeLessThan(100)
  expect(linesOf(written.slice(2)).map((line) => JSON.parse(line).at)).toEqual(
    Array.from({ length: 10_000 }, (_, at) => at),
  )
})

test('§18: the line of a request has what is known of it, and nothing else', () => {
  const written: string[] = []
  const log = createLog('info', (lines) => written.push(lines))
  const least = { requestId: 'req_1', route: '/v1/a', method: 'GET', code: null, latencyMs: 1.26 } as const
  const most: RequestLine = {
    ...least,
    requestId: 'req_2',
    status: 502,
    code: 'upstream_error',
    keyId: 'key_1',
    role: 'admin',
    addressHash: 'hash',
    clientRequestId: 'c-1',
    jobId: 'job',
    model: 'm "quoted" ü\n',
    nodeId: 'node_1',
    tries: 2,
    ttftMs: 0.04,
    promptTokens: 0,
    completionTokens: 3,
    stranger: false,
  }
  logRequest(log, { ...least, status: 200, stranger: true })
  logRequest(log, most)
  log.flush()
  const head = { ts: expect.any(String), event: 'request' }
  const told = { route: '/v1/a', method: 'GET', latency_ms: 1.3 }
  expect(linesOf(written).map((line) => JSON.parse(line))).toEqual([
    { ...head, ...told, level: 'info', request_id: 'req_1', status: 200, code: null },
    {
      ...head,
      ...told,
      level: 'warn',
      request_id: 'req_2',
      status: 502,
      code: 'upstream_error',
      key_id: 'key_1',
      role: 'admin',
      ip: 'hash',
      client_request_id: 'c-1',
      job_id: 'job',
      model: 'm "quoted" ü\n',
      node_id: 'node_1',
      tries: 2,
      ttft_ms: 0,
      prompt_tokens: 0,
      completion_tokens: 3,
    },
  ])
})

test('§18: refused strangers are one line a second and kind, and the counts add up to all of them', async () => {
  const written: string[] = []
  const log = createLog('info', (lines) => written.push(lines))
  const kinds = ['missing_credentials', 'invalid_api_key', 'rate_limited'] as const
  const refuse = (at: number, code: (typeof kinds)[number]) =>
    logRequest(log, { ...stranger, requestId: `req_${at}`, code, status: problemKinds[code].status })
  const all = () => {
    log.flush()
    return linesOf(written).map((line) => JSON.parse(line) as { code: string; request_id: string; count?: number })
  }
  const countOf = (code: string) => all().reduce((sum, line) => sum + (line.code === code ? (line.count ?? 1) : 0), 0)
  for (let at = 0; at < 30_000; at++) refuse(at, kinds[at % kinds.length] ?? kinds[0])
  expect(kinds.map(countOf)).toEqual([10_000, 10_000, 10_000])
  expect(all()).toHaveLength(6)
  expect(all().map(({ count }) => count)).toEqual([undefined, undefined, undefined, 9_999, 9_999, 9_999])
  expect(all().map(({ request_id }) => request_id)).toEqual([0, 1, 2, 29_997, 29_998, 29_999].map((at) => `req_${at}`))
})

test('§18: a refused stranger behind another has its line within the next second, without a flush', async () => {
  const written: string[] = []
  const log = createLog('info', (lines) => written.push(lines))
  const refuse = (requestId: string) =>
    logRequest(log, { ...stranger, requestId, code: 'missing_credentials', status: 401 })
  const ids = () => linesOf(written).map((line) => (JSON.parse(line) as { request_id: string }).request_id)
  refuse('req_1')
  refuse('req_2')
  await waitUntil('both lines', () => ids().length === 2)
  expect(ids()).toEqual(['req_1', 'req_2'])
})

test('§18: whom the gateway knows has a line for each request, refused or not; a fault of ours always has one', () => {
  const written: string[] = []
  const log = createLog('info', (lines) => written.push(lines))
  for (let at = 0; at < 5; at++) {
    logRequest(log, { ...stranger, code: 'invalid_request', status: 400, keyId: 'key_1', stranger: false })
    logRequest(log, { ...stranger, code: 'internal_error', status: 500 })
    logRequest(log, { ...stranger, code: null, status: 200 })
  }
  log.flush()
  expect(linesOf(written)).toHaveLength(15)
})
