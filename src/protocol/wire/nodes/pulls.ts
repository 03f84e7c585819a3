import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, formed, Instant, literals, modelId, nullable, strict } from '../shapes.ts'

/** Models that an agent fetches from a hub that its owner allows (§39). The gateway signs each request. */
export const nodePullsPath = `/${brand}/v1/pulls`

/** The one that runs, and those that wait for it. */
export const pullsOpenMax = 8
/** With those that have ended; the oldest are forgotten. */
export const pullsKeptMax = 24
/** What all of them say, bytes. */
export const pullsBytesMax = 64 * 1024

const pullStates = ['waiting', 'looking', 'fetching', 'done', 'failed', 'cancelled'] as const
export type PullState = (typeof pullStates)[number]
export const hasEnded = (state: PullState): boolean => ['done', 'failed', 'cancelled'].includes(state)

const pullFailures = [
  'not_allowed',
  'not_found',
  'ambiguous',
  'hub_unavailable',
  'hub_malformed',
  'wrong_hash',
  'over_budget',
  'disk_full',
  'disk_error',
  'does_not_fit',
  'not_a_model',
  'models_file',
  'agent_stopped',
] as const
export type PullFailure = (typeof pullFailures)[number]

const pullRef = formed(
  '^(?:(?:hf|ollama):[A-Za-z0-9._/:-]+|https?://[A-Za-z0-9._:/~+-]+)$',
  'hf:org/repo:QUANT, ollama:name:tag or an https URL of a .gguf file',
  { maxLength: 1_024 },
)
const contextLength = { minimum: 256, maximum: 16_777_216 }

export const PullOrder = Type.Object(
  {
    ref: pullRef,
    sha256: Type.Optional(formed('^[0-9a-f]{64}$', 'a SHA-256 in lower-case hexadecimal digits')),
    model: Type.Optional(
      Type.Unsafe<string>({ ...modelId, description: 'What requests call it; absent: by its reference' }),
    ),
    context_length: Type.Optional(
      Type.Integer({
        ...contextLength,
        description: 'Tokens that it must have room for; absent: 8,192, or what it can',
      }),
    ),
  },
  strict,
)
export type PullOrder = Static<typeof PullOrder>

export const Pull = Type.Object(
  {
    pull_id: Type.String({ pattern: '^pull_[0-9A-Z]{26}$' }),
    ref: pullRef,
    model: modelId,
    state: literals(pullStates),
    failure: nullable(literals(pullFailures)),
    bytes_done: count,
    bytes_total: nullable(count),
    memory_mb: nullable(
      Type.Integer({ minimum: 1, description: 'What it will take in memory, as estimated from its header' }),
    ),
    context_length: nullable(Type.Integer(contextLength)),
    begun_at: Instant,
    ended_at: nullable(Instant),
  },
  strict,
)
export type Pull = Static<typeof Pull>

/** `GET` of the agent: newest first. */
export const AgentPulls = Type.Object({ pulls: Type.Array(Pull, { maxItems: pullsKeptMax }) }, strict)
export type AgentPulls = Static<typeof AgentPulls>

/** `GET /v1/admin/nodes/{node_id}/pulls`. */
export const PullList = Type.Object({
  object: Type.Literal(`${brand}.admin.pull_list`),
  generated_at: Instant,
  count,
  pulls: Type.Array(Pull),
})
export type PullList = Static<typeof PullList>
