import { sql } from 'drizzle-orm'
import { check, index, jsonb, numeric, pgTable, text } from 'drizzle-orm/pg-core'
import type { CustomerId, KeyId } from '../../ids.ts'
import type { GatewayPolicy, ModelPolicy } from '../../protocol/wire/admin/policy.ts'
import { bytea, createdAt, instant, revision } from '../columns.ts'

export const customers = pgTable(
  'customers',
  {
    customerId: text().$type<CustomerId>().primaryKey(),
    displayName: text().notNull(),
    accountStatus: text({ enum: ['active', 'suspended', 'closed'] })
      .notNull()
      .default('active'),
    gatewayPolicy: jsonb().$type<GatewayPolicy>(),
    tokenHash: bytea().notNull().unique(),
    /** ChaCha20-Poly1305 under SVC_SECRETS_KEY: nonce ‖ ciphertext. */
    webhookSecretSealed: bytea().notNull(),
    balanceWei: numeric({ precision: 78, scale: 0, mode: 'bigint' }).notNull().default(sql`0`),
    reservedWei: numeric({ precision: 78, scale: 0, mode: 'bigint' }).notNull().default(sql`0`),
    /** Of the balance, beside what is reserved: in leases of gateways, which reserve it in memory (docs/decisions/0051). */
    leasedWei: numeric({ precision: 78, scale: 0, mode: 'bigint' }).notNull().default(sql`0`),
    /** Somebody wants to know what is reserved: no lease begins before. */
    unleasedUntil: instant(),
    revision: revision(),
    createdAt: createdAt(),
  },
  (t) => [
    // One constraint with a number in it: the server reads the text of each anew for every charge.
    check(
      'customer_amounts',
      sql`0 <= ${t.reservedWei} and 0 <= ${t.leasedWei} and ${t.reservedWei} + ${t.leasedWei} <= ${t.balanceWei}
        and ${t.balanceWei} < ${sql.raw(String(2n ** 256n))}`,
    ),
    // The list of customers, newest first.
    index().on(t.createdAt, t.customerId),
  ],
)

export const gatewayKeys = pgTable(
  'gateway_keys',
  {
    keyId: text().$type<KeyId>().primaryKey(),
    customerId: text()
      .$type<CustomerId>()
      .notNull()
      .references(() => customers.customerId),
    keyHash: bytea().notNull().unique(),
    displayPrefix: text().notNull(),
    name: text().notNull(),
    nodeScope: jsonb().$type<string[]>(),
    modelPolicy: jsonb().$type<ModelPolicy>(),
    createdAt: createdAt(),
    /** To the minute. */
    lastUsedAt: instant(),
    expiresAt: instant(),
    revokedAt: instant(),
  },
  // The lists of one customer's keys, and of all, newest first.
  (t) => [index().on(t.customerId), index().on(t.createdAt, t.keyId)],
)

/** Role tokens made at the first start with the embedded database; with DATABASE_URL they come from the environment. */
export const adminTokens = pgTable('admin_tokens', {
  tokenHash: bytea().primaryKey(),
  role: text({ enum: ['admin', 'operator', 'viewer'] }).notNull(),
  createdAt: createdAt(),
  /** By the pepper, over hash and role: who has only the database cannot make one (§36). null: a version before made the token. */
  mark: text(),
})
