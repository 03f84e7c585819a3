import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { RequestFilter, RequestPlace, RequestRecord } from '../../actors/requests/request-log.ts'
import { requestOutcomes } from '../../db/queries/requests/request-records.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { count, Instant, literals, nullable, nullableInteger } from '../../protocol/wire/shapes.ts'
import type { Sought } from './own.ts'

const text = Type.String()
const [nullableText, nullableInstant] = [nullable(text), nullable(Instant)]

/** As the processes of one gateway show them to each other. */
const OwnRequests = Type.Object({
  rows: Type.Array(
    Type.Object({
      requestId: text,
      at: Instant,
      customerId: text,
      keyId: nullableText,
      operation: text,
      stream: Type.Boolean(),
      model: nullableText,
      nodeId: nullableText,
      tries: count,
      queueMs: count,
      loadMs: nullableInteger,
      sentMs: nullableInteger,
      ttftMs: nullableInteger,
      durationMs: count,
      promptTokens: nullableInteger,
      completionTokens: nullableInteger,
      cachePercent: nullableInteger,
      status: Type.Integer(),
      code: nullableText,
      // Absent: a process of the version before says it, while it is replaced.
      tags: Type.Optional(nullableText),
      costWei: nullableText,
      receiptHash: nullableText,
      failedTries: nullable(
        Type.Array(Type.Object({ node_id: text, code: text, started_ms: count, duration_ms: count })),
      ),
    }),
  ),
})
const rowsOf = (answers: readonly Static<typeof OwnRequests>[]): readonly RequestRecord[] =>
  answers.flatMap(({ rows }) => rows).map(({ tags = null, ...row }) => ({ ...row, tags, at: new Date(row.at) }))

const Asked = Type.Object({
  filter: Type.Object({
    from: nullableInstant,
    to: nullableInstant,
    model: nullableText,
    nodeId: nullableText,
    customerId: nullableText,
    keyId: nullableText,
    status: nullableInteger,
    code: nullableText,
    ttftMsMin: nullableInteger,
    outcome: nullable(literals(requestOutcomes)),
    tag: Type.Optional(nullableText),
  }),
  after: nullable(Type.Object({ at: Instant, requestId: text })),
  limit: count,
})
const dateOf = (moment: string | null) => (moment === null ? null : new Date(moment))

/** What this process keeps in its own memory: one request, or those of a list. */
export async function ownRequests(
  { requests }: GatewayHandle,
  asked: Readonly<Record<string, string>>,
): Promise<{ readonly rows: readonly RequestRecord[] } | null> {
  if (asked.request_id !== undefined) return { rows: [requests.recent(asked.request_id) ?? []].flat() }
  const question = foreignJson(asked.list ?? '')
  if (!Value.Check(Asked, question)) return null
  const { after, limit } = question
  const { tag = null, ...filter } = question.filter
  const range = { from: dateOf(filter.from), to: dateOf(filter.to) }
  const place = after === null ? null : { ...after, at: new Date(after.at) }
  return { rows: (await requests.page({ ...filter, tag, ...range }, place, limit)).records }
}

/** Of whichever process served it. */
export async function requestOf(gateway: GatewayHandle, requestId: string): Promise<Sought<RequestRecord>> {
  const found = await gateway.requests.find(requestId)
  if (found !== null) return { found, silent: 0 }
  const { answers, silent } = await gateway.siblings.survey('requests', { request_id: requestId }, OwnRequests)
  return { found: rowsOf(answers)[0] ?? null, silent }
}

/** Those of a list that the other processes of this gateway keep, each at most as many as asked for. */
export async function ownRequestsOfAll(
  gateway: GatewayHandle,
  asked: { readonly filter: RequestFilter; readonly after: RequestPlace | null; readonly limit: number },
): Promise<readonly RequestRecord[]> {
  return rowsOf(await gateway.siblings.ask('requests', { list: JSON.stringify(asked) }, OwnRequests))
}
