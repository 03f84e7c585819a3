import {
  bigint,
  boolean,
  doublePrecision,
  index,
  integer,
  jsonb,
  numeric,
  pgTable,
  primaryKey,
  text,
  unique,
} from 'drizzle-orm/pg-core'
import type { CustomerId, EnrollmentTokenId, NodeId, ProfileId, RuntimeId } from '../../ids.ts'
import type { TransportKey } from '../../protocol/wire/nodes/agent.ts'
import type { NodeAlarm } from '../../protocol/wire/nodes/alarms.ts'
import type { Modality, ServedWork } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { SealedKey } from '../../protocol/wire/nodes/sealed-key.ts'
import { bytea, createdAt, instant, revision } from '../columns.ts'
import { customers } from './accounts.ts'

/** Requests have waited for a node in vain. */
export interface StoredVain {
  /** How often in a row. */
  readonly count: number
  /** RFC 3339: until then no request wakes it. */
  readonly until: string
}

/** A node that sleeps. */
export interface StoredSleep {
  /** RFC 3339. */
  readonly since: string
  /** The kind of work of each model that was ready, by profile. */
  readonly ready: Readonly<Record<string, Modality>>
  /** Absent: it has woken each time, or a person has changed something since. */
  readonly vain?: StoredVain
}

export const nodes = pgTable(
  'nodes',
  {
    nodeId: text().$type<NodeId>().primaryKey(),
    customerId: text()
      .$type<CustomerId>()
      .notNull()
      .references(() => customers.customerId),
    /** `runtime`: a plain OpenAI-compatible server; `agent`: the node program (§22). */
    kind: text({ enum: ['runtime', 'agent'] }).notNull(),
    name: text().notNull(),
    /** Base URL without a trailing slash; null for a node that dials in. Never leaves the admin routes. */
    url: text(),
    apiKeySealed: bytea(),
    /** Ed25519, 32 bytes; null for a node without an agent. */
    identityKey: bytea(),
    /** As the agent published them last, verified (§10). */
    transportKeys: jsonb().$type<readonly TransportKey[]>(),
    /** To which sealed inference is sealed, in the same way (§38); null: its agent has none. */
    sealedKeys: jsonb().$type<readonly SealedKey[]>(),
    visibility: text({ enum: ['private', 'public'] }).notNull(),
    privacyClass: text({ enum: ['public', 'trusted', 'private'] }).notNull(),
    nodeClass: text().notNull(),
    /** 0 to 9: a higher one is used only when no lower one can serve in time (§29). */
    rank: integer().notNull().default(0),
    /** A hosted provider: prompts leave the owner's machines. */
    external: boolean().notNull().default(false),
    payoutAddress: text(),
    /** Where the shares of work for former owners go, by customer, and `in_turn` (docs/decisions/0057); null: it had none with an address. */
    formerPayees: jsonb().$type<Readonly<Record<string, string>>>(),
    /** The kinds of work of its models, as an operator has declared them (§35); null: none is declared. */
    serves: jsonb().$type<ServedWork>(),
    /** What the node has found wrong with its gateway, by its own word (§36), and when it said so; null: nothing. */
    alarms: jsonb().$type<readonly NodeAlarm[]>(),
    alarmsAt: instant(),
    /** When the node has signed the address; null: it is the operator's word. */
    payeeStatedAt: instant(),
    /** The operator's wish; the node's observed state lives in memory of each gateway (§8). */
    adminState: text({ enum: ['active', 'draining', 'revoked'] })
      .notNull()
      .default('active'),
    /** `discovered` and `demo` nodes were found by the gateway itself. */
    origin: text({ enum: ['operator', 'discovered', 'demo'] })
      .notNull()
      .default('operator'),
    drainStartedAt: instant(),
    /** Hardware addresses that listen for a magic packet (§39), by the agent's word or an operator's; null: none is known. */
    macs: jsonb().$type<readonly string[]>(),
    /** SecureOn: the password behind the packet, six bytes in the form of an address, encrypted. */
    wakeSecretSealed: bytea(),
    /** The networks that the agent's computer is on, in CIDR form. They never leave the gateway. */
    networks: jsonb().$type<readonly string[]>(),
    /** When requests may wake it, as `07:00-23:00 Europe/Berlin`; null: always. */
    wakeHours: text(),
    /** Since when it sleeps, and what it had ready then; null: it is not known to sleep. */
    asleep: jsonb().$type<StoredSleep>(),
    /** Moving mean of what it takes from the first packet until a model is ready, ms; null: it was never woken. */
    wakeMs: doublePrecision(),
    revision: revision(),
    createdAt: createdAt(),
  },
  (t) => [index().on(t.customerId)],
)

/**
 * Whose a deleted node was and where its shares go, for charges that still come and shares that wait (docs/decisions/0069). A trigger writes them, of
 * nodes that had an address. Rows stay for ever, as the shares do that name the node.
 */
export const deletedNodes = pgTable('deleted_nodes', {
  nodeId: text().$type<NodeId>().primaryKey(),
  customerId: text().$type<CustomerId>().notNull(),
  payoutAddress: text(),
  formerPayees: jsonb().$type<Readonly<Record<string, string>>>(),
  deletedAt: createdAt(),
})

/** When the last magic packet for each node was sent, by whichever gateway: together they send no more than one would (§39). */
export const nodeWakes = pgTable('node_wakes', {
  nodeId: text()
    .$type<NodeId>()
    .primaryKey()
    .references(() => nodes.nodeId, { onDelete: 'cascade' }),
  packetAt: instant().notNull(),
})

/** Every identity that ever enrolled: what was revoked or deleted never comes back (§22). Rows stay for ever. */
export const nodeIdentities = pgTable('node_identities', {
  publicKey: bytea().primaryKey(),
  nodeId: text().$type<NodeId>().notNull(),
  createdAt: createdAt(),
})

/** Where nodes said that their earnings go, each signed by the node's identity; rows stay for ever. */
export const payeeStatements = pgTable(
  'payee_statements',
  {
    nodeId: text().$type<NodeId>().notNull(),
    /** `0x` and 40 hex digits in lower case. */
    payee: text().notNull(),
    /** The node's own clock. */
    signedAt: instant().notNull(),
    signatureEd25519: text().notNull(),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.nodeId, t.signedAt] })],
)

/** What an operator lets one node become. The token itself is stored nowhere (§22). */
export const enrollmentTokens = pgTable(
  'enrollment_tokens',
  {
    tokenId: text().$type<EnrollmentTokenId>().primaryKey(),
    tokenHash: bytea().notNull().unique(),
    displayPrefix: text().notNull(),
    customerId: text()
      .$type<CustomerId>()
      .notNull()
      .references(() => customers.customerId),
    name: text().notNull(),
    /** The highest the node may ask for. */
    visibility: text({ enum: ['private', 'public'] }).notNull(),
    privacyClass: text({ enum: ['public', 'trusted', 'private'] }).notNull(),
    nodeClass: text().notNull(),
    endpointUrlAllowed: boolean().notNull(),
    createdAt: createdAt(),
    expiresAt: instant().notNull(),
    usedAt: instant(),
    usedBy: text().$type<NodeId>(),
  },
  (t) => [index().on(t.customerId)],
)

/** Nonces of signed messages of nodes, each good once (§15). */
export const nodeNonces = pgTable(
  'node_nonces',
  { nodeId: text().$type<NodeId>().notNull(), nonceHash: bytea().notNull(), expiresAt: instant().notNull() },
  (t) => [primaryKey({ columns: [t.nodeId, t.nonceHash] }), index().on(t.expiresAt)],
)

/** One runtime of one node; an agentless node has exactly one. */
export const runtimes = pgTable(
  'runtimes',
  {
    runtimeId: text().$type<RuntimeId>().primaryKey(),
    nodeId: text()
      .$type<NodeId>()
      .notNull()
      .references(() => nodes.nodeId, { onDelete: 'cascade' }),
    /** The name by which the node itself tells its runtimes apart; '' for an agentless node, whose further ranks are `rank 1` and so on. */
    label: text().notNull().default(''),
    createdAt: createdAt(),
  },
  (t) => [unique().on(t.nodeId, t.label)],
)

/** A profile is one model on one runtime of one node; the last measured call is its benchmark (§9). */
export const modelProfiles = pgTable(
  'model_profiles',
  {
    profileId: text().$type<ProfileId>().primaryKey(),
    runtimeId: text()
      .$type<RuntimeId>()
      .notNull()
      .references(() => runtimes.runtimeId, { onDelete: 'cascade' }),
    /** As the node names it. */
    upstreamModelId: text().notNull(),
    lastMeasuredAt: instant(),
    /** Of the last call whose first token was timed: how long it took, when, and how many have been timed by then. */
    ttftMs: doublePrecision(),
    ttftAt: instant(),
    ttftCount: bigint({ mode: 'number' }).notNull().default(0),
    tokensPerSecond: doublePrecision(),
    /** Kinds of work that it was only supposed to do, by its name, and has done (§35). */
    answered: jsonb().$type<readonly Modality[]>().notNull().default([]),
    createdAt: createdAt(),
  },
  (t) => [unique().on(t.runtimeId, t.upstreamModelId)],
)

/**
 * When each id of a model was first known, of a node or of the catalogue. Rows stay for ever: the model may come back, and
 * its age never changes (§9).
 */
export const knownModels = pgTable('known_models', { modelId: text().primaryKey(), knownAt: createdAt() })

/** The operator's entry for a model id. Nodes that name the model differently serve it together under its aliases. */
export const modelEntries = pgTable('model_entries', {
  modelId: text().primaryKey(),
  aliases: jsonb().$type<string[]>().notNull().default([]),
  name: text(),
  description: text(),
  inputModalities: jsonb().$type<string[]>(),
  outputModalities: jsonb().$type<string[]>(),
  /** Its kinds of work on each node that declares none itself (§35); null: not declared. */
  serves: jsonb().$type<Modality[]>(),
  contextLength: integer(),
  maxOutputLength: integer(),
  promptTokenPriceWei: numeric({ precision: 78, scale: 0, mode: 'bigint' }),
  completionTokenPriceWei: numeric({ precision: 78, scale: 0, mode: 'bigint' }),
  /** Decimal strings in USD per unit: `prompt`, `completion`, `image`, `request`, `input_cache_read`. */
  usdPrices: jsonb().$type<Record<string, string>>(),
  revision: revision(),
  updatedAt: createdAt(),
})
