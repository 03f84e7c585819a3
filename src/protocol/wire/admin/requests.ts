import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { pageFields } from '../page.ts'
import { count, Instant, nullable, nullableInteger, wei } from '../shapes.ts'
import { Explanation } from './explanation.ts'

const nullableText = nullable(Type.String())

/** What became of one request, as its customer may see it: never content. */
export const requestFields = {
  request_id: Type.String(),
  at: Type.Unsafe<string>({ ...Instant, description: 'When it began' }),
  key_id: nullable(Type.String({ description: 'null: it came without a key, or the reader is a viewer' })),
  operation: Type.String({ description: '`chat`, `embeddings`, …; `mixture` for a chat that several models answered' }),
  stream: Type.Boolean(),
  model: nullable(Type.String({ description: 'null: no such model was found, or it was a mixture' })),
  tries: Type.Unsafe<number>({ ...count, description: 'Calls of nodes' }),
  queue_ms: Type.Unsafe<number>({ ...count, description: 'Waited for a slot' }),
  load_ms: nullable(Type.Integer({ description: 'Waited for the model to be loaded; null: it was, or not measured' })),
  sent_ms: nullable(Type.Integer({ description: 'From the start to the last call of a node' })),
  ttft_ms: nullable(Type.Integer({ description: 'From the start to the first content; null: not measured' })),
  duration_ms: count,
  prompt_tokens: nullableInteger,
  completion_tokens: nullableInteger,
  cache_percent: nullable(
    Type.Integer({
      description: "Of the prompt, found in the node's cache as it says; null: it does not say",
    }),
  ),
  status: Type.Integer({ description: 'HTTP status; 499: the client left' }),
  code: nullable(Type.String({ description: 'Of the refusal or failure' })),
  tags: Type.Array(Type.String(), { description: 'By which its client calls it; none for viewers' }),
  cost_wei: nullable(wei),
  receipt_hash: nullableText,
}

export const AdminRequest = Type.Object({
  ...requestFields,
  customer_id: nullable(Type.String({ description: 'null for viewers' })),
  node_id: nullable(Type.String({ description: 'The node that was called last' })),
})
export type AdminRequest = Static<typeof AdminRequest>

export const CustomerRequest = Type.Object(requestFields)
export type CustomerRequest = Static<typeof CustomerRequest>

export const AdminRequestList = Type.Object({
  object: Type.Literal(`${brand}.admin.request_list`),
  generated_at: Instant,
  count,
  ...pageFields,
  requests: Type.Array(AdminRequest),
})
export type AdminRequestList = Static<typeof AdminRequestList>

/** One request with its story: what was tried, and why on these nodes. */
export const RequestStory = Type.Object({
  object: Type.Literal(`${brand}.admin.request`),
  generated_at: Instant,
  request: AdminRequest,
  cause: nullable(
    Type.Object(
      {
        title: Type.String({ description: 'What its code means, in a few words' }),
        means: Type.String({ description: 'What has happened, in sentences; what stands in backticks is code' }),
        next: Type.String({ description: 'The next step, likewise' }),
        help_url: Type.String({ description: 'Where the page of errors explains the code' }),
      },
      { description: 'Why it failed; null: it did not, its client left, or its code is of a later version' },
    ),
  ),
  attempts: Type.Array(
    Type.Object({
      node_id: Type.String(),
      code: nullable(Type.String({ description: 'Why it failed; null: it answered' })),
      started_ms: Type.Unsafe<number>({ ...count, description: 'From the start of the request' }),
      duration_ms: count,
    }),
    { description: 'Calls of nodes, in their order' },
  ),
  states: Type.Array(
    Type.Object({
      state: Type.String(),
      event: Type.String(),
      at_ms: Type.Unsafe<number>({ ...count, description: 'From the start of the request' }),
    }),
    {
      description: 'Its way through the statechart `request`, from its record; empty for a mixture, which has its own',
    },
  ),
  explain: nullable(Explanation),
})
export type RequestStory = Static<typeof RequestStory>

export const CustomerRequestList = Type.Object({
  status: Type.Literal('ok'),
  customer_id: Type.String(),
  generated_at: Instant,
  count,
  ...pageFields,
  requests: Type.Array(CustomerRequest),
})
export type CustomerRequestList = Static<typeof CustomerRequestList>
