import type { RequestFilter } from '../../actors/requests/request-log.ts'
import { requestOutcomes } from '../../db/queries/requests/request-records.ts'
import { tagPattern, tagWords } from '../../protocol/wire/inference/tags.ts'
import { filter, idFilter, limitOf, oneOf, type QueryValues } from '../../protocol/wire/query.ts'
import { modelId } from '../../protocol/wire/shapes.ts'
import { pageQuery, readRange } from './page.ts'

/** What both lists of requests can be asked for (§32). */
export const requestQuery = {
  ...pageQuery,
  model: filter('As the client named it', String(modelId.pattern), 'the id of a model'),
  key_id: idFilter('Only those of this gateway key'),
  status: filter('HTTP status. 499 means that the client left.', '^[1-5][0-9]{2}$', 'an HTTP status from 100 to 599'),
  code: filter(
    'The code of a refusal or failure',
    '^[a-z][a-z0-9_]{0,63}$',
    'the code of an error, such as rate_limited',
  ),
  min_ttft_ms: filter(
    'Only those whose first token came at least so late, ms',
    '^[0-9]{1,9}$',
    'a whole number of milliseconds',
  ),
  tag: filter('One of its tags', tagPattern.source, `a tag: ${tagWords}`),
  outcome: oneOf(
    requestOutcomes,
    '`failed`: ended with a code, though the client had not left. `4xx`, `5xx`: by its status, 499 in neither.',
  ),
  limit: limitOf(100, 1_000),
} as const

export const adminRequestQuery = {
  ...requestQuery,
  node_id: idFilter('Only those for which this node was called last'),
  customer_id: idFilter('Only those of this customer (operator and above)'),
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
    outcome: query.outcome,
    tag: query.tag,
  }
}
