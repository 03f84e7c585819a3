import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import {
  address,
  count,
  formed,
  hash,
  id,
  literals,
  modelId,
  nodeTier,
  nullable,
  nullableInteger,
  slug,
  strict,
  text,
} from '../shapes.ts'
import { workKinds } from '../work-kinds.ts'
import { instant, keyText, signature } from './agent-shapes.ts'
import { Hardware } from './hardware.ts'
import { ModelFile, ModelMemory } from './model-facts.ts'
import { runtimeKinds } from './node.ts'
import { NodePower } from './power.ts'
import { SealedKey, sealedKeysMax } from './sealed-key.ts'
import { Modality } from './served-work.ts'

/** What the node agent and the gateway say to each other beyond chat (§22). Unknown members are refused, but in a status. */

export const agentProtocolVersion = 1
export const nodeStatusPath = `/${brand}/v1/status`
/** Where a gateway tells an agent to sleep, and to send a magic packet for another computer (§39). */
export const nodeSleepPath = `/${brand}/v1/sleep`
export const nodeWakePath = `/${brand}/v1/wake`
/** Where a gateway says which models an agent is to have in memory (§30): `…/{id}/load`, `…/{id}/unload`; `…/{id}/logs` gives a log (§37). */
export const nodeModelsPath = `/${brand}/v1/models`
export const runtimesMax = 64
export const modelsPerRuntimeMax = 1_000
export const transportKeysMax = 3
/** More than any computer holds. */
export const cacheTokensMax = 2 ** 40

const nodeClass = nodeTier()
const visibility = literals(['private', 'public'])

/** `key_id` is the first 16 bytes of the SHA-256 of the key; the signature, over the JCS of the rest, the identity's. */
export const TransportKey = Type.Object(
  {
    key_id: formed('^[A-Za-z0-9_-]{22}$', '16 bytes as base64url, which is 22 characters'),
    public_key_x25519: keyText,
    not_before: instant,
    not_after: instant,
    state: literals(['active', 'retiring', 'revoked']),
    signature_ed25519: signature,
  },
  strict,
)
export type TransportKey = Static<typeof TransportKey>
const transportKeys = (minItems: number) => Type.Array(TransportKey, { minItems, maxItems: transportKeysMax })

export const EnrollRequest = Type.Object(
  {
    protocol_version: Type.Literal(agentProtocolVersion),
    enrollment_token: Type.String({ maxLength: 128 }),
    public_key_ed25519: keyText,
    transport_keys: transportKeys(1),
    name: Type.Optional(text(64)),
    node_class: Type.Optional(nodeClass),
    visibility: Type.Optional(visibility),
    payout_address: Type.Optional(address),
    endpoint_url: Type.Optional(Type.String({ maxLength: 2_048 })),
    signature_ed25519: signature,
  },
  strict,
)
export type EnrollRequest = Static<typeof EnrollRequest>

export const RouterPublicKey = Type.Object({ kid: Type.String(), public_key_ed25519: keyText })
export type RouterPublicKey = Static<typeof RouterPublicKey>

const routerPublicKeys = Type.Array(RouterPublicKey, { minItems: 1, maxItems: 8, description: 'Newest first' })

/** `GET /v1/node-agent/router-keys`: an agent that knows one of the keys takes over all of them. */
export const RouterKeys = Type.Object({
  router_public_keys: routerPublicKeys,
  signatures: Type.Array(Type.Object({ kid: Type.String(), signature_ed25519: signature }), {
    minItems: 1,
    maxItems: 8,
  }),
})
export type RouterKeys = Static<typeof RouterKeys>

export const EnrollResponse = Type.Object({
  status: Type.Literal('enrolled'),
  protocol_version: Type.Literal(agentProtocolVersion),
  node_id: id,
  node_class: nodeClass,
  visibility,
  privacy_class: literals(['public', 'trusted', 'private']),
  router_public_keys: routerPublicKeys,
  tunnel_url: Type.String({ description: 'ws: or wss:' }),
  endpoint_url: nullable(
    Type.String({ description: 'Where the gateway will call the agent. null means by its tunnel.' }),
  ),
  log_keys: Type.Optional(
    Type.Array(Type.String({ maxLength: 512 }), {
      minItems: 1,
      maxItems: 8,
      description: 'The keys of the public log that the agent witnesses (C2SP `signed-note`); their name is the log’s',
    }),
  ),
})
export type EnrollResponse = Static<typeof EnrollResponse>

/** `POST /v1/nodes/{node_id}/payee`: where the node's earnings go from now on, in its own name. */
export const PayeeStatement = Type.Object(
  {
    payee: formed('^0x[0-9a-f]{40}$', 'an Ethereum address in lower case: 0x and 40 hexadecimal digits'),
    signed_at: formed(
      '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$',
      'an RFC 3339 time in UTC with milliseconds',
      { description: 'At most 300 s from now' },
    ),
    signature_ed25519: signature,
  },
  strict,
)
export type PayeeStatement = Static<typeof PayeeStatement>
export const PayeeStated = Type.Object({
  status: Type.Literal('stated'),
  node_id: id,
  payee: Type.String(),
  signed_at: Type.String(),
})

/** The states of a model server of the agent: those of the chart `model-server`. */
export const modelServerStates = [
  'stopped',
  'queued',
  'starting',
  'ready.idle',
  'ready.busy',
  'ready.draining',
  'falling',
  'dozing',
  'recalled',
  'waking',
  'stopping',
  'failed',
] as const
export type ModelServerState = (typeof modelServerStates)[number]

const devicesMax = 16
/** MiB by device; the memory of the computer itself is `memory`. */
export const deviceMemory = (description: string) =>
  Type.Record(Type.String({ pattern: '^[A-Za-z0-9._-]{1,64}$' }), Type.Integer({ minimum: 1, maximum: 16_777_216 }), {
    ...strict,
    minProperties: 1,
    maxProperties: devicesMax,
    description,
  })

export const AgentModel = Type.Object(
  {
    id: modelId,
    modality: Modality,
    ready: Type.Boolean({ description: 'The model can answer now, perhaps after loading' }),
    loaded: nullable(Type.Boolean()),
    context_length: nullableInteger,
    cache_tokens: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: cacheTokensMax,
        description: "Tokens of prompts that its server's cache holds",
      }),
    ),
    cache_held_tokens: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: cacheTokensMax,
        description: "Tokens of its prompts that are in its server's cache now, by the server's own events",
      }),
    ),
    cache_full: Type.Optional(
      Type.Boolean({ description: 'With `cache_held_tokens`: what comes takes the place of what is there' }),
    ),
    adapts: Type.Optional(modelId),
    dozing: Type.Optional(
      Type.Boolean({ description: 'Its server offers a sleep that is sooner over than a load, and is in it or not' }),
    ),
    loading_since: Type.Optional(nullable(instant)),
    memory_mb: Type.Optional(Type.Integer({ minimum: 1, description: 'What it takes of the memory of its computer' })),
    device_mb: Type.Optional(deviceMemory('The same by device')),
    resident_mb: Type.Optional(
      Type.Integer({ minimum: 0, description: 'What its processes were measured to have in memory' }),
    ),
    group: Type.Optional(slug()),
    pinned: Type.Optional(Type.Boolean({ description: 'Its owner wants it in memory always' })),
    evicts: Type.Optional(Type.Boolean({ description: 'To load it, another model would have to leave memory' })),
    server_state: Type.Optional(literals(modelServerStates)),
    file: Type.Optional(ModelFile),
    memory: Type.Optional(ModelMemory),
  },
  strict,
)
export type AgentModel = Static<typeof AgentModel>

export const AgentRuntime = Type.Object(
  {
    runtime_id: Type.String({ pattern: '^rt_[0-9A-Z]{26}$', description: 'The agent keeps it over restarts' }),
    kind: literals(runtimeKinds),
    state: literals(['ready', 'loading', 'down']),
    models: Type.Array(AgentModel, { maxItems: modelsPerRuntimeMax }),
    slots_total: nullableInteger,
    slots_free: nullableInteger,
    queue_depth: nullable(count),
    running: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Requests that it works on. Absent: its slots say so, or it does not say',
      }),
    ),
  },
  strict,
)
export type AgentRuntime = Static<typeof AgentRuntime>

/** `X-SVC-Status-Members` of a gateway that leaves out what it does not know of a status. */
export const anyStatusMembers = 'any'

/** `GET /svc/v1/status`, signed over the nonce of `X-SVC-Status-Nonce`. */
export const NodeStatus = Type.Object(
  {
    node_id: Type.String(),
    sent_at: instant,
    runtimes: Type.Array(AgentRuntime, { maxItems: runtimesMax }),
    memory_mb: Type.Optional(deviceMemory('What the models of the agent’s own servers may take together, by device')),
    hardware: Type.Optional(Hardware),
    power: Type.Optional(NodePower),
    transport_keys: transportKeys(0),
    sealed_keys: Type.Optional(Type.Array(SealedKey, { maxItems: sealedKeysMax })),
    signature_ed25519: signature,
  },
  strict,
)
export type NodeStatus = Static<typeof NodeStatus>

/**
 * `POST /v1/node-agent/keys/verify`: may this gateway key use `model` on the node that asks? Signed in the headers
 * `X-SVC-Node-ID`, `-Timestamp`, `-Nonce`, `-Signature` over `keyVerifyMessage`.
 */
export const KeyVerifyRequest = Type.Object({ gateway_key: Type.String({ maxLength: 128 }), model: modelId }, strict)
export type KeyVerifyRequest = Static<typeof KeyVerifyRequest>
export const KeyVerifyResponse = Type.Object({ valid: Type.Boolean() })
export type KeyVerifyResponse = Static<typeof KeyVerifyResponse>

/** What an agent puts into the `svc` of its terminal chunk or whole answer; the receipt in its wire names. */
export const NodeReceipt = Type.Object({
  receipt_hash: hash,
  receipt: Type.Object(
    {
      v: Type.String(),
      issuer: Type.Literal('node'),
      request_id: Type.String({ maxLength: 64 }),
      job_id: nullable(Type.String({ maxLength: 64 })),
      kind: literals(workKinds),
      node_id: Type.String({ maxLength: 64 }),
      node_class: Type.String({ maxLength: 64 }),
      runtime_id: Type.String({ maxLength: 64 }),
      runtime_kind: literals(runtimeKinds),
      model_id: Type.String({ maxLength: 128 }),
      prompt_tokens: Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
      completion_tokens: Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
      started_at: instant,
      completed_at: instant,
      issued_at: Type.Optional(instant),
    },
    strict,
  ),
  signature_ed25519: signature,
})
export type NodeReceipt = Static<typeof NodeReceipt>

/** The last lines of a model server's output, as an agent gives them to its gateway (§37). */
export const modelLogLinesMax = 200
export const modelLogCharactersMax = 500
const logLine = Type.String({ maxLength: modelLogCharactersMax })
export const ModelLog = Type.Object({ lines: Type.Array(logLine, { maxItems: modelLogLinesMax }) }, strict)
export type ModelLog = Static<typeof ModelLog>
