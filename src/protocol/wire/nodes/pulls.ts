import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { modelIdPattern } from '../../../ids.ts'
import { count, formed, Instant, literals, modelId, nullable, strict } from '../shapes.ts'

/** Models that an agent fetches from a hub, or from another node, as its owner allows (§39). The gateway signs each request. */
export const nodePullsPath = `/${brand}/v1/pulls`
/** Which files a model of `models.json` has, and their bytes, where the owner lets other nodes have them. */
export const nodeFilesPath = `/${brand}/v1/files`
export const nodeFileBytesPath = `${nodeFilesPath}/bytes`

/** Files of one model; llama.cpp splits the largest into some dozens. */
export const modelFilesMax = 64

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
  'not_given',
] as const
export type PullFailure = (typeof pullFailures)[number]

const pullRef = formed(
  '^(?:(?:hf|ollama):[A-Za-z0-9._/:-]+|https?://[A-Za-z0-9._:/~+-]+)$',
  'hf:org/repo:QUANT, ollama:name:tag or an https URL of a .gguf file',
  { maxLength: 1_024 },
)
/** Of a copy: the node that has it, and its name there. */
export const copyRef = (nodeId: string, model: string): string => `node:${nodeId}/${model}`
const anyRef = formed(
  `${pullRef.pattern}|^node:node_[0-9A-Z]{26}/${modelIdPattern.source.slice(1)}`,
  'the reference of a model',
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

/** As an agent reads it. `ticket`: of a copy; the gateway that gets it back knows what it has ordered. */
export const AgentPullOrder = Type.Object(
  { ...PullOrder.properties, ref: anyRef, ticket: Type.Optional(formed('^[A-Za-z0-9_-]{1,1024}$', 'a ticket')) },
  strict,
)
export type AgentPullOrder = Static<typeof AgentPullOrder>

export const Pull = Type.Object(
  {
    pull_id: Type.String({ pattern: '^pull_[0-9A-Z]{26}$' }),
    ref: anyRef,
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

/** `POST` of the gateway for the files of a model. */
export const FilesAsked = Type.Object({ model: modelId }, strict)
export type FilesAsked = Static<typeof FilesAsked>

/** `POST` for the bytes of one of them, to its end where `to` is absent. `to`: the last byte. */
export const FileBytesAsked = Type.Object(
  {
    model: modelId,
    file: Type.Integer({ minimum: 0, maximum: modelFilesMax - 1, description: 'Its place in the list, from 0' }),
    from: Type.Integer({ minimum: 0 }),
    to: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  strict,
)
export type FileBytesAsked = Static<typeof FileBytesAsked>

/** What the owner of a computer gives of a model. 202 in its place: it still hashes the files. */
export const GivenFiles = Type.Object(
  {
    files: Type.Array(
      Type.Object(
        {
          name: Type.String({ minLength: 1, maxLength: 255 }),
          bytes: Type.Integer({ minimum: 1 }),
          sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
        },
        strict,
      ),
      { minItems: 1, maxItems: modelFilesMax },
    ),
  },
  strict,
)
export type GivenFiles = Static<typeof GivenFiles>
/** A list of them, bytes. */
export const givenFilesBytesMax = 64 * 1024

/** Of a copy's order. */
export const CopyOrder = Type.Object(
  {
    model: Type.Unsafe<string>({ ...modelId, description: 'Its name on this node, as models.json has it' }),
    to: Type.String({ minLength: 1, maxLength: 128, description: 'The name or id of the node that gets it' }),
    name: Type.Optional(
      Type.Unsafe<string>({ ...modelId, description: 'What requests call it there; absent: as on this node' }),
    ),
    context_length: Type.Optional(
      Type.Integer({
        ...contextLength,
        description: 'Tokens that it must have room for there; absent: 8,192, or what it can',
      }),
    ),
  },
  strict,
)
export type CopyOrder = Static<typeof CopyOrder>

/** The pull at the node that gets the model. */
export const ModelCopy = Type.Object({ to_node_id: Type.String(), pull: Pull }, strict)
export type ModelCopy = Static<typeof ModelCopy>
