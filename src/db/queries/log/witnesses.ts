import { and, isNotNull, ne } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { nodes } from '../../schema/pool.ts'

/** Of all agents that were not revoked. */
export async function identityKeys(
  db: Database,
): Promise<readonly { readonly nodeId: string; readonly customerId: string; readonly identityKey: Buffer }[]> {
  const rows = await db
    .select({ nodeId: nodes.nodeId, customerId: nodes.customerId, identityKey: nodes.identityKey })
    .from(nodes)
    .where(and(isNotNull(nodes.identityKey), ne(nodes.adminState, 'revoked')))
  return rows.flatMap(({ identityKey, ...row }) => (identityKey === null ? [] : [{ ...row, identityKey }]))
}
