import { sql } from 'drizzle-orm'
import { bigint, pgSequence, pgTable, text } from 'drizzle-orm/pg-core'
import type { NodeId } from '../../ids.ts'
import { instant } from '../columns.ts'

/** Rises with every tunnel that opens anywhere: who holds an older number holds no tunnel of that node any more. */
export const tunnelEpochs = pgSequence('tunnel_epochs')

/** Which gateway holds the newest tunnel of a node (§26). No row, or a lease that has run out: none does. */
export const tunnelOwners = pgTable('tunnel_owners', {
  nodeId: text().$type<NodeId>().primaryKey(),
  replicaId: text().notNull(),
  /** Where the other gateways reach that one; null: nowhere. */
  peerUrl: text(),
  epoch: bigint({ mode: 'number' }).notNull().default(sql`nextval('tunnel_epochs')`),
  leaseUntil: instant().notNull(),
})
