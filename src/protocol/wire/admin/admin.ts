import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { hoursForm, hoursWords } from '../nodes/hours-form.ts'
import { runtimeKinds } from '../nodes/node.ts'
import { writtenMac } from '../nodes/power.ts'
import { Modality, NodeWork } from '../nodes/served-work.ts'
import {
  address,
  count,
  etag,
  formed,
  Instant,
  id,
  literals,
  NullableInstant,
  nullable,
  nullableInteger,
  reason,
  serverKey,
  slug,
  strict,
  text,
} from '../shapes.ts'
import { nodeSays } from './node-says.ts'

export const ModelWish = Type.Object(
  { model: Type.String({ maxLength: 128, description: 'As the catalogue or the node names it' }), reason },
  strict,
)
export const ModelWished = Type.Object({
  status: Type.Literal('accepted'),
  node_id: Type.String(),
  model: Type.String(),
})
export type ModelWished = Static<typeof ModelWished>
export const ModelLogRead = Type.Object({
  node_id: Type.String(),
  model: Type.String(),
  lines: Type.Array(Type.String(), { description: 'The last lines that its server has written, oldest first' }),
})
export const ReasonBody = Type.Object({ reason }, strict)

const visibility = literals(['private', 'public'])
const privacyClass = literals(['public', 'trusted', 'private'])

const urlBounds = { minLength: 1, maxLength: 2048 }
const url = Type.String({ ...urlBounds, description: 'Base URL of an OpenAI-compatible server' })
const apiKey = Type.Optional(
  nullable(serverKey({ description: 'The gateway sends it to the node as bearer and never shows it' })),
)
const payoutAddress = Type.Optional(nullable(address))
const nodeClass = slug({ description: 'A route tier' })

const nodeRank = Type.Integer({
  minimum: 0,
  maximum: 9,
  description: 'A higher rank is used only when no lower one can serve in time (default 0)',
})
const nodeExternal = Type.Boolean({
  description: 'A hosted provider: used only where the policies of account and key say `allow_external`',
})
const nodeServes = Type.Optional(nullable(NodeWork))

export const NodeCreate = Type.Object(
  {
    customer_id: id,
    url,
    name: Type.Optional(text(128)),
    visibility,
    node_class: nodeClass,
    privacy_class: privacyClass,
    rank: Type.Optional(nodeRank),
    external: Type.Optional(nodeExternal),
    serves: nodeServes,
    api_key: apiKey,
    payout_address: payoutAddress,
    reason,
  },
  strict,
)
export const NodeUpdate = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        ...urlBounds,
        description: 'A new URL removes the stored API key, unless `api_key` comes with it',
      }),
    ),
    name: Type.Optional(text(128)),
    visibility: Type.Optional(visibility),
    node_class: Type.Optional(nodeClass),
    privacy_class: Type.Optional(privacyClass),
    rank: Type.Optional(nodeRank),
    external: Type.Optional(nodeExternal),
    serves: nodeServes,
    api_key: apiKey,
    payout_address: payoutAddress,
    mac: Type.Optional(
      nullable(Type.Unsafe<string>({ ...writtenMac, description: 'Where magic packets for the node go' })),
    ),
    secure_on: Type.Optional(
      nullable(
        Type.Unsafe<string>({
          ...writtenMac,
          description: 'The SecureOn password of its network card. The gateway never shows it',
        }),
      ),
    ),
    wake_hours: Type.Optional(
      nullable(
        formed(hoursForm, hoursWords, { maxLength: 80, description: 'When requests may wake it; null: always' }),
      ),
    ),
    reason,
  },
  strict,
)

export const NodeOwner = Type.Object({ customer_id: id, reason }, strict)

export const FirstToken = Type.Object(
  {
    ms: Type.Number(),
    at: Instant,
    of: Type.Integer({ minimum: 1, description: 'How many have been measured there: this is the last one' }),
  },
  { description: 'The last measured time to a first token; null: none was measured' },
)
export type FirstToken = Static<typeof FirstToken>

const NodeModel = Type.Object({
  model_profile_id: Type.String(),
  model: Type.String({ description: 'The model id that clients use' }),
  upstream_model: Type.String({ description: 'The model id that the node uses' }),
  serves: Type.Array(Modality, { description: 'The kinds of work that requests are placed there for' }),
  ready: Type.Boolean(),
  loaded: nullable(Type.Boolean({ description: 'In memory; null: its server does not say' })),
  loading_since: nullable(Type.Unsafe<string>({ ...Instant, description: 'Since when it is being loaded' })),
  memory_mb: nullable(Type.Integer({ description: 'What it takes of memory; null: not reported' })),
  resident_mb: Type.Optional(
    nullable(Type.Integer({ description: 'What its processes were measured to have in memory; null: not measured' })),
  ),
  prompt_tokens_per_second: nullable(
    Type.Number({ description: 'How fast it is believed to read prompts, as learnt from first tokens' }),
  ),
  backlog_ms: Type.Unsafe<number>({
    ...count,
    description: 'Believed: how long what was placed there takes to be read',
  }),
  cache_match: nullable(
    Type.Number({
      description: 'Moving share of prompts that was in its cache, as its answers say; null: none does',
      minimum: 0,
      maximum: 1,
    }),
  ),
  context_length: nullableInteger,
  in_flight: count,
  first_token: nullable(FirstToken),
  ttft_ewma_ms: nullable(
    Type.Number({ description: '`ms` of `first_token`, for command lines of earlier versions', deprecated: true }),
  ),
  tokens_per_second: nullable(Type.Number({ description: 'Moving mean of what streams were measured at' })),
  measured_at: NullableInstant,
  ejected_until: NullableInstant,
  times_ejected: count,
})
const NodeClaims = Type.Object(
  {
    calls: count,
    at_bound: Type.Unsafe<number>({ ...count, description: 'Of these: as much as could still be true, or more' }),
    review: Type.Boolean({ description: 'More than 5 of them are: somebody should look at this node' }),
  },
  { description: 'What its last claims of usage came to, at most 100, of calls that somebody paid for (§5)' },
)

/** A node, its last status and its load. Address, owner and payout address are null for viewers. */
export const Node = Type.Object({
  node_id: Type.String(),
  customer_id: nullable(Type.String()),
  name: Type.String(),
  kind: literals(['runtime', 'agent']),
  url: nullable(Type.String()),
  has_api_key: Type.Boolean(),
  identity_fingerprint: nullable(
    Type.String({ description: 'The fingerprint of an agent. Compare it with the one that the agent prints.' }),
  ),
  transport: nullable(literals(['direct', 'tunnel', 'peer'])),
  visibility,
  privacy_class: privacyClass,
  node_class: Type.String(),
  rank: nodeRank,
  external: nodeExternal,
  serves: nullable(NodeWork),
  payout_address: nullable(Type.String()),
  payout_address_by: nullable(
    Type.Union([Type.Literal('node'), Type.Literal('operator')], {
      description: 'Who says so: `node` has signed it, and alone can change it',
    }),
  ),
  ...nodeSays,
  origin: literals(['operator', 'discovered', 'demo']),
  admin_state: literals(['active', 'draining', 'revoked']),
  state: literals(['enrolled', 'live', 'ready', 'draining', 'yielding', 'asleep', 'stale', 'offline', 'revoked']),
  state_since: NullableInstant,
  /** Absent: of a gateway of a version before. */
  state_reasons: Type.Optional(
    Type.Array(Type.String(), { description: 'Why it yields: the names of the probes of its owner' }),
  ),
  state_says: Type.Optional(
    nullable(Type.String({ description: 'What the state leaves open, in words for a person. null: nothing' })),
  ),
  held_until: nullable(Instant),
  in_flight: count,
  runtimes: Type.Array(
    Type.Object({
      runtime_id: Type.String(),
      runtime_kind: literals(runtimeKinds),
      state: literals(['ready', 'loading', 'down']),
      slots_total: nullableInteger,
      slots_free: nullableInteger,
      queue_depth: nullableInteger,
      models: Type.Array(NodeModel),
      ranking_models: Type.Array(Type.String(), {
        description: 'Built into the agent, for programs on the node itself',
      }),
    }),
  ),
  last_error: nullable(Type.Object({ code: Type.String(), at: Instant })),
  usage_claims: NodeClaims,
  drain_started_at: NullableInstant,
  /** These are absent of a gateway of a version before. */
  macs: Type.Optional(
    nullable(
      Type.Array(Type.String(), {
        description: 'Where magic packets for it go. null: none is known, or you are a viewer',
      }),
    ),
  ),
  wake_hours: Type.Optional(nullable(Type.String({ description: 'When requests may wake it; null: always' }))),
  wake_ms: Type.Optional(
    nullable(Type.Number({ description: 'How long it takes to wake, as learnt; null: it was never woken' })),
  ),
  created_at: Instant,
  etag,
})
export type Node = Static<typeof Node>
export const NodeList = Type.Object({
  object: Type.Literal(`${brand}.admin.node_list`),
  generated_at: Instant,
  count,
  nodes: Type.Array(Node),
})
export type NodeList = Static<typeof NodeList>
