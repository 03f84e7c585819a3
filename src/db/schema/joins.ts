import { index, jsonb, pgTable, text } from 'drizzle-orm/pg-core'
import type { JoinId, NodeId } from '../../ids.ts'
import type { TransportKey } from '../../protocol/wire/nodes/agent.ts'
import { bytea, createdAt, instant } from '../columns.ts'

/** Computers that ask to join without a token (§39). A row stays for a while after its end, so that nothing is replayed. */
export const nodeJoins = pgTable(
  'node_joins',
  {
    joinId: text().$type<JoinId>().primaryKey(),
    /** `begun`: its nonce is not revealed yet; only a waiting one has words, and is shown. */
    state: text({ enum: ['begun', 'waiting', 'confirmed', 'refused', 'withdrawn'] })
      .notNull()
      .default('begun'),
    /** Ed25519, 32 bytes: the identity of the computer. */
    publicKey: bytea().notNull(),
    transportKeys: jsonb().$type<readonly TransportKey[]>().notNull(),
    /** As the computer calls itself. */
    name: text(),
    /** As it was told, base64url. A commitment counts once. */
    commitment: text().notNull().unique(),
    /** By which of its keys the gateway is known in this join. */
    routerKid: text().notNull(),
    /** The gateway's own, base64url; it is sent only after the computer has revealed its nonce. */
    nonce: text().notNull(),
    nodeNonce: text(),
    words: text(),
    /** Keyed hash of the address that it came from, for the bound alone. */
    addressHash: text().notNull(),
    nodeId: text().$type<NodeId>(),
    createdAt: createdAt(),
    expiresAt: instant().notNull(),
  },
  (t) => [index().on(t.expiresAt)],
)
