import { and, isNotNull, ne } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { nodes } from '../../schema/pool.ts'

/** Of all agents that were not revoked. */
export async function identityKeys(
  db: Database,
): Promise<readonly { readonly nodeId: string; readonly identityKey: Buffer }[]> {
  const rows = await db
    .select({ nodeId: nodes.nodeId, identityKey: nodes.identityKey })
    .from(nodes)
    .where(and(isNotNull(nodes.identityKey), ne(nodes.adminState, 'revoked')))
  return rows.flatMap(({ nodeId, identityKey }) => (identityKey === null ? [] : [{ nodeId, identityKey }]))
}
