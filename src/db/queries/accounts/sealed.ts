import { and, asc, eq, gt, isNotNull } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { customers } from '../../schema/accounts.ts'
import { nodes } from '../../schema/pool.ts'

/** Where each kind of sealed secret stands: a new kind is a line here. */
const places = {
  node_api_key: { table: nodes, id: nodes.nodeId, sealed: nodes.apiKeySealed, column: 'apiKeySealed' },
  node_wake_secret: {
    table: nodes,
    id: nodes.nodeId,
    sealed: nodes.wakeSecretSealed,
    column: 'wakeSecretSealed',
  },
  webhook_secret: {
    table: customers,
    id: customers.customerId,
    sealed: customers.webhookSecretSealed,
    column: 'webhookSecretSealed',
  },
} as const

export type SealedKind = keyof typeof places
export const sealedKinds = Object.keys(places) as readonly SealedKind[]

export interface SealedRow {
  readonly id: string
  readonly sealed: Buffer
}

/** In the order of ids; `after`: the last id of the page before. */
export async function listSealed(
  db: Database,
  kind: SealedKind,
  after: string | null,
  limit: number,
): Promise<readonly SealedRow[]> {
  const { table, id, sealed } = places[kind]
  const rows = await db
    .select({ id, sealed })
    .from(table)
    .where(and(isNotNull(sealed), after === null ? undefined : gt(id, after)))
    .orderBy(asc(id))
    .limit(limit)
  return rows.flatMap((row) => (row.sealed === null ? [] : [{ id: row.id, sealed: row.sealed }]))
}

/** Changes nothing where somebody else has changed it meanwhile. */
export async function replaceSealed(db: Database, kind: SealedKind, row: SealedRow, sealed: Buffer): Promise<void> {
  const { table, id, column, sealed: was } = places[kind]
  await db
    .update(table)
    .set({ [column]: sealed })
    .where(and(eq(id, row.id), eq(was, row.sealed)))
}
