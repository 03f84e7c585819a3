import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, id, literals, nodeTier, nullable, reason, strict, text } from '../shapes.ts'
import { agentProtocolVersion, EnrollResponse, TransportKey, transportKeysMax } from './agent.ts'
import { keyText, signature } from './agent-shapes.ts'

/** How a computer joins by six words (§39): what it and the gateway tell each other, and what operators see and send. */

/** How long a joiner may take to reveal its nonce, ms. */
export const joinRevealMs = 60_000
/** How long a join waits for an operator, ms. */
export const joinWaitMs = 900_000
/** How many may wait from one address. */
export const joinsPerAddressMax = 5
/** How many may wait in all. */
export const joinsMax = 50
/** How often one address may ask within half an hour. Withdrawn requests are kept equally long, so that they cannot be repeated. */
export const joinsKeptPerAddressMax = 200
/** How often all together may ask within half an hour. */
export const joinsKeptMax = 2_000
/** A request with the most transport keys has 2 kB. */
export const joinBodyBytesMax = 8 * 1024

const commitment = keyText
const nonce = keyText

/** `POST /v1/node-agent/join`. Unknown members are refused. */
export const JoinRequest = Type.Object(
  {
    protocol_version: Type.Literal(agentProtocolVersion),
    public_key_ed25519: keyText,
    transport_keys: Type.Array(TransportKey, { minItems: 1, maxItems: transportKeysMax }),
    name: Type.Optional(text(64)),
    commitment,
    timestamp: Type.Integer({ minimum: 0, maximum: 2 ** 40, description: 'Unix seconds' }),
    signature_ed25519: signature,
  },
  strict,
)
export type JoinRequest = Static<typeof JoinRequest>

export const JoinBegun = Type.Object({
  join_id: id,
  kid: Type.String({ maxLength: 64 }),
  public_key_ed25519: keyText,
  commitment,
  reveal_by: Instant,
})
export type JoinBegun = Static<typeof JoinBegun>

/** `POST /v1/node-agent/join/{join_id}`. */
export const JoinReveal = Type.Object({ nonce }, strict)
export type JoinReveal = Static<typeof JoinReveal>
export const JoinRevealed = Type.Object({ nonce, expires_at: Instant })
export type JoinRevealed = Static<typeof JoinRevealed>

/** `GET /v1/node-agent/join/{join_id}`. */
export const JoinState = Type.Object({
  state: literals(['waiting', 'confirmed', 'refused', 'expired']),
  enrollment: Type.Optional(EnrollResponse),
  signature_ed25519: Type.Optional(signature),
})
export type JoinState = Static<typeof JoinState>

const words = Type.String({ description: 'Six words, which the computer that joins shows, too' })

export const WaitingJoin = Type.Object({
  join_id: Type.String(),
  name: nullable(Type.String({ description: 'The name that the computer gives itself' })),
  words,
  identity_fingerprint: nullable(Type.String()),
  created_at: Instant,
  expires_at: Instant,
})
export type WaitingJoin = Static<typeof WaitingJoin>
export const WaitingJoinList = Type.Object({
  object: Type.Literal(`${brand}.admin.join_list`),
  generated_at: Instant,
  count,
  joins: Type.Array(WaitingJoin),
})
export type WaitingJoinList = Static<typeof WaitingJoinList>

export const JoinConfirm = Type.Object(
  {
    words: Type.String({
      maxLength: 128,
      description: 'The six words that the computer shows: they must be those of this join',
    }),
    customer_id: id,
    name: Type.Optional(text(128)),
    visibility: literals(['private', 'public']),
    node_class: nodeTier({ description: 'A route tier' }),
    privacy_class: literals(['public', 'trusted', 'private']),
    reason,
  },
  strict,
)
export type JoinConfirm = Static<typeof JoinConfirm>
