import fc from 'fast-check'
import type { FinishedRequest } from '../../../src/actors/requests/request-kinds.ts'
import type { NodeId, RequestId } from '../../../src/ids.ts'
import { ulid } from '../../../src/ids.ts'
import { hourMs, minuteMs } from '../../../src/time.ts'

const nodes = [null, 'node_A', 'node_B', 'node_C'] as const
const models = [null, 'model-a', 'model-b'] as const
const customers = ['cus_1', 'cus_2'] as const

/** How a request can end: its status, its code, and whether it can have had a first token. */
const ends = [
  [200, null],
  [200, 'internal_error'],
  [499, null],
  [429, 'rate_limited'],
  [502, 'upstream_error'],
] as const

const ms = fc.oneof(
  fc.constantFrom(0, 1, 2, 3, 1_900),
  fc.integer({ min: 0, max: 40 }),
  fc.integer({ min: 0, max: 600_000 }),
)
const tokens = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 100_000 }))

/** Moments that lie together, on and beside the edges of minutes, hours and days, and anywhere. ms before `endMs`. */
const agoMs = (spanMs: number) =>
  fc.oneof(
    fc.constantFrom(1, 2, minuteMs, minuteMs + 1, hourMs - 1, hourMs, hourMs + 1, 24 * hourMs, 24 * hourMs + 1),
    fc.integer({ min: 1, max: Math.floor(spanMs / hourMs) }).map((hours) => hours * hourMs),
    fc.integer({ min: 1, max: spanMs }),
  )

const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null, freq: 3 })

/** A finished request as its handler hands it over, that began at most `spanMs` before `endMs`. */
export function finishedRequest(endMs: number, spanMs: number): fc.Arbitrary<FinishedRequest> {
  return fc
    .record({
      agoMs: agoMs(spanMs).map((ms) => Math.min(ms, spanMs)),
      customerId: fc.constantFrom(...customers),
      nodeId: fc.constantFrom(...nodes),
      model: fc.constantFrom(...models),
      end: fc.constantFrom(...ends),
      ttftMs: some(ms),
      latencyMs: ms,
      usage: some(fc.record({ prompt: tokens, completion: tokens })),
      stream: fc.boolean(),
      tags: fc.constantFrom(null, 'a', 'a,b', 'b,team:search'),
    })
    .map(({ agoMs, customerId, nodeId, model, end: [status, code], ttftMs, latencyMs, usage, stream, tags }) => ({
      requestId: `req_${ulid(endMs - agoMs)}` as RequestId,
      customerId,
      keyId: null,
      operation: 'chat',
      stream,
      tags,
      record: {
        model,
        status,
        code,
        latencyMs,
        ttftMs,
        usage:
          usage === null
            ? null
            : {
                prompt_tokens: usage.prompt,
                completion_tokens: usage.completion,
                total_tokens: usage.prompt + usage.completion,
              },
        attempts: nodeId === null ? 0 : 1,
        nodeId: nodeId as NodeId | null,
        queueMs: 0,
        loadMs: null,
        sentMs: nodeId === null ? null : 1,
        cachePercent: null,
        costWei: null,
        receiptHash: null,
        failedTries: null,
        jobId: null,
      },
    }))
}
