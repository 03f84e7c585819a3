import type { RequestFilter } from '../../actors/requests/request-log.ts'
import { pageQuery, readRange } from './page.ts'
import { limitOf, type QueryValues } from './query.ts'

const idFilter = (description: string) =>
  ({ kind: 'text', pattern: /^[A-Za-z0-9_-]{1,64}$/, required: false, description }) as const

/** What both lists of requests can be asked for (§32). */
export const requestQuery = {
  ...pageQuery,
  model: {
    kind: 'text',
    pattern: /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/,
    required: false,
    description: 'As the client named it',
  },
  key_id: idFilter('Of one gateway key'),
  status: {
    kind: 'text',
    pattern: /^[1-5][0-9]{2}$/,
    required: false,
    description: 'HTTP status; 499: the client left',
  },
  code: { kind: 'text', pattern: /^[a-z][a-z0-9_]{0,63}$/, required: false, description: 'Of a refusal or failure' },
  min_ttft_ms: {
    kind: 'text',
    pattern: /^[0-9]{1,9}$/,
    required: false,
    description: 'With a first token at least so late, ms',
  },
  limit: limitOf(100, 1_000),
} as const

export const adminRequestQuery = {
  ...requestQuery,
  node_id: idFilter('Of the node that was called last'),
  customer_id: idFilter('Of one customer (operator and above)'),
} as const

const integer = (text: string | null) => (text === null ? null : Number(text))

export function readRequestFilter(
  query: QueryValues<typeof requestQuery>,
  { nodeId, customerId }: Pick<RequestFilter, 'nodeId' | 'customerId'>,
): RequestFilter {
  return {
    ...readRange(query),
    model: query.model,
    nodeId,
    customerId,
    keyId: query.key_id,
    status: integer(query.status),
    code: query.code,
    ttftMsMin: integer(query.min_ttft_ms),
  }
}
