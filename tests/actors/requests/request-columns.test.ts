import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ChatRecord } from '../../../src/actors/chat/chat-command.ts'
import { RequestColumns } from '../../../src/actors/requests/request-columns.ts'
import type { FinishedRequest } from '../../../src/actors/requests/request-kinds.ts'
import { RequestRing, requestsKeptMax } from '../../../src/actors/requests/request-ring.ts'
import type { RequestRecord } from '../../../src/db/queries/requests/request-records.ts'
import { idMs, newId } from '../../../src/ids.ts'

const oddNames = ['', 'a', 'm\tn\\o\n', 'ß→🦀', '\ud800', '\0', 'x'.repeat(300), 'NULL', '{1,2}', '"q"']
const names = fc.oneof(fc.constantFrom(...oddNames), fc.string({ unit: 'binary' }))
const ms = fc.oneof(fc.double({ noNaN: true }), fc.constantFrom(0, 0.5, 2 ** 31, 1e300, -1, Number.POSITIVE_INFINITY))
const tokens = fc.nat({ max: 2 ** 31 - 1 })
const orNull = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: null })
const hash = fc.oneof(
  fc.constantFrom('', '0x', 'ß'.repeat(65)),
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 64, maxLength: 64 }).map((hex) => `0x${hex}`),
)

const record: fc.Arbitrary<ChatRecord> = fc.record({
  model: orNull(names),
  status: fc.constantFrom(200, 499, 502),
  code: fc.constantFrom(null, 'upstream_error', 'rate_limited'),
  latencyMs: ms,
  ttftMs: orNull(ms),
  usage: orNull(
    fc.tuple(tokens, tokens).map(([prompt, completion]) => ({
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    })),
  ),
  attempts: fc.oneof(fc.nat({ max: 5 }), fc.constant(1e9)),
  nodeId: orNull(names),
  queueMs: ms,
  loadMs: orNull(ms),
  sentMs: orNull(ms),
  cachePercent: orNull(fc.nat({ max: 100 })),
  costWei: orNull(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })),
  receiptHash: orNull(hash),
  failedTries: orNull(
    fc.array(fc.record({ node_id: names, code: names, started_ms: ms, duration_ms: ms }), {
      minLength: 1,
      maxLength: 3,
    }),
  ),
  jobId: orNull(names),
})
const request: fc.Arbitrary<FinishedRequest> = fc.record({
  requestId: fc.oneof(
    fc.constantFrom('', 'req_', 'ü'.repeat(31)),
    fc.constant(null).map(() => newId('req')),
  ),
  customerId: names,
  keyId: orNull(names),
  operation: fc.constantFrom('chat', 'embeddings'),
  stream: fc.boolean(),
  tags: orNull(names),
  record,
})

const wholeMs = (value: number) => Math.min(2 ** 31 - 1, Math.max(0, Math.round(value)))
const wholeOrNull = (value: number | null) => (value === null ? null : wholeMs(value))

/** What §32 keeps of a request, worked out member by member. */
function expected({ record: of, ...request }: FinishedRequest): Omit<RequestRecord, 'at'> {
  const { costWei, failedTries } = of
  return {
    ...request,
    model: of.model,
    nodeId: of.nodeId,
    tries: Math.min(32_767, of.attempts),
    queueMs: wholeMs(of.queueMs),
    loadMs: wholeOrNull(of.loadMs),
    sentMs: wholeOrNull(of.sentMs),
    ttftMs: wholeOrNull(of.ttftMs),
    durationMs: wholeMs(of.latencyMs),
    promptTokens: of.usage?.prompt_tokens ?? null,
    completionTokens: of.usage?.completion_tokens ?? null,
    cachePercent: of.cachePercent,
    status: of.status,
    code: of.code,
    costWei: costWei === null ? null : costWei.toString(),
    receiptHash: of.receiptHash,
    failedTries:
      failedTries === null
        ? null
        : failedTries.map((failed) => ({
            ...failed,
            started_ms: wholeMs(failed.started_ms),
            duration_ms: wholeMs(failed.duration_ms),
          })),
  }
}

test('§32: whatever is put into a place comes out as it was, and leaves nothing for the next one', () => {
  const places = 3
  fc.assert(
    fc.property(fc.array(request, { minLength: 1, maxLength: 12 }), (requests) => {
      const columns = new RequestColumns(places)
      expect(columns.record(0)).toBeNull()
      for (const [turn, finished] of requests.entries()) {
        const at = turn % places
        columns.put(at, finished)
        const kept = columns.record(at)
        expect({ ...kept, at: undefined }).toEqual({ ...expected(finished), at: undefined })
        expect(kept?.at.getTime()).toBe(idMs(finished.requestId))
        for (const [field, value] of Object.entries(expected(finished))) {
          const read: unknown = columns.read[field as keyof typeof columns.read](at)
          expect(read).toEqual(Array.isArray(value) ? JSON.stringify(value) : value)
        }
      }
      for (const [turn, { requestId }] of [...requests.entries()].slice(-places)) {
        expect(columns.record(columns.find(requestId) ?? -1)?.requestId).toBe(requestId)
        expect(columns.record(turn % places)?.requestId).toBe(requestId)
      }
    }),
    { numRuns: 300 },
  )
})

const plain: FinishedRequest = {
  requestId: '',
  customerId: 'cus',
  keyId: null,
  operation: 'chat',
  stream: false,
  tags: null,
  record: {
    model: 'm',
    status: 200,
    code: null,
    latencyMs: 1,
    ttftMs: null,
    usage: null,
    attempts: 1,
    nodeId: null,
    queueMs: 0,
    loadMs: null,
    sentMs: null,
    cachePercent: null,
    costWei: null,
    receiptHash: null,
    failedTries: null,
    jobId: null,
  },
}

test('§32: the last requests are kept, the older ones are not, and an id that is a piece of two others is none', () => {
  const ring = new RequestRing(0)
  const ids = Array.from({ length: requestsKeptMax + 5 }, () => newId('req'))
  for (const requestId of ids) ring.write({ ...plain, requestId })
  expect(ids.slice(0, 5).map((id) => ring.find(id))).toEqual([null, null, null, null, null])
  expect([ids[5], ids.at(-1)].map((id) => ring.find(id ?? '')?.requestId)).toEqual([ids[5], ids.at(-1)])
  const [one = '', next = ''] = ids.slice(5)
  expect(ring.find(one.slice(4) + next.slice(0, 4))).toBeNull()
  expect(new RequestRing(0).find('\0'.repeat(one.length))).toBeNull()
})

test('§32: many kinds of requests at once keep their own names', () => {
  const columns = new RequestColumns(5_000)
  const customerOf = (at: number) => `cus_${at % 2_500}`
  for (let at = 0; at < columns.size; at++)
    columns.put(at, { ...plain, requestId: newId('req'), customerId: customerOf(at) })
  for (let at = 0; at < columns.size; at++) expect(columns.record(at)?.customerId).toBe(customerOf(at))
})

test('§32: a gateway that keeps requests in memory alone lists those with a tag', () => {
  const ring = new RequestRing(0)
  const [one, two, three] = [newId('req'), newId('req'), newId('req')]
  for (const [requestId, tags] of [
    [one, 'a,b'],
    [two, null],
    [three, 'ab'],
  ] as const) {
    ring.write({ ...plain, requestId, tags })
  }
  const any = { from: null, to: null, model: null, nodeId: null, customerId: null, keyId: null, status: null }
  const list = (tag: string | null) =>
    ring.list({ ...any, code: null, ttftMsMin: null, outcome: null, tag }, null, 10).map(({ requestId }) => requestId)
  expect(['a', 'b', 'ab', 'c'].map(list)).toEqual([[one], [one], [three], []])
  expect(list(null)).toHaveLength(3)
})
