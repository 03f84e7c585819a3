import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, nullable } from '../shapes.ts'

const shares = (of: string, more = '') =>
  Type.Array(Type.Object({ name: Type.String(), requests: count }), {
    description: `The ${of} with the most of them, at most 3.${more}`,
  })
const forOperators = ' Empty for viewers'

/** Failed requests of one cause: a status and a code. */
const FailureCluster = Type.Object({
  status: Type.Integer({ description: 'HTTP status; 200: a stream that had begun' }),
  code: Type.String(),
  title: Type.String({ description: 'What the code means' }),
  help_url: nullable(Type.String({ description: 'Where the code is explained; null: it is of a later version' })),
  requests: count,
  first_at: Instant,
  last_at: Instant,
  request_id: Type.String({ description: 'The newest of them' }),
  model_count: count,
  node_count: count,
  key_count: count,
  customer_count: count,
  models: shares('models, as the clients named them,'),
  nodes: shares('nodes, by id, that were called last'),
  keys: shares('keys, by id,', forOperators),
  customers: shares('customers, by id,', forOperators),
})
export type FailureCluster = Static<typeof FailureCluster>

/** What failed in a range, by cause. */
export const AdminFailures = Type.Object({
  object: Type.Literal(`${brand}.admin.failures`),
  generated_at: Instant,
  from: Type.Unsafe<string>({ ...Instant, description: 'Where what was read begins' }),
  to: Instant,
  kept_days: Type.Integer({
    minimum: 0,
    description: '`SVC_REQUEST_LOG_DAYS`; 0: no requests are kept, and `failures` is empty',
  }),
  complete: Type.Boolean({
    description: 'false: `from` is later than asked for, since only the newest 100,000 requests were read',
  }),
  count,
  step_seconds: Type.Integer({ minimum: 60, description: 'Of `points`: 60 or 3,600' }),
  points: Type.Array(
    Type.Object({
      at: Instant,
      status: Type.Integer({ description: 'HTTP status; 200: a stream that had begun' }),
      requests: count,
    }),
    { description: 'By step of time and status, oldest first; a step in which none failed is left out' },
  ),
  failures: Type.Array(FailureCluster, { description: 'Most requests first, at most 100' }),
})
export type AdminFailures = Static<typeof AdminFailures>
