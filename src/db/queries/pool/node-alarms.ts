import { and, eq, isNull, lt, or } from 'drizzle-orm'
import type { NodeId } from '../../../ids.ts'
import type { NodeAlarm } from '../../../protocol/wire/nodes/alarms.ts'
import type { Database } from '../../client.ts'
import { nodes } from '../../schema/pool.ts'

/** In the place of what the node said before; an older report changes nothing. */
export async function saveAlarms(
  db: Database,
  nodeId: string,
  { alarms, signedAt }: { readonly alarms: readonly NodeAlarm[]; readonly signedAt: Date },
): Promise<void> {
  const isNewer = or(isNull(nodes.alarmsAt), lt(nodes.alarmsAt, signedAt))
  await db
    .update(nodes)
    .set({ alarms, alarmsAt: signedAt })
    .where(and(eq(nodes.nodeId, nodeId as NodeId), isNewer))
}
