import { and, desc, gte, inArray, lt, notInArray, sql } from 'drizzle-orm'
import { newId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { gatewayStarts } from '../../schema/gateway-starts.ts'
import { approvalEvents } from '../../schema/partitioned/audit-events.ts'

/** Actions after which traffic may look different, and what a plot calls them. */
const kindOf = {
  'node.drain': 'drain',
  'node.resume': 'resume',
  'node.sleep': 'sleep',
  'node.wake': 'wake',
  'node.register': 'added',
  'node.delete': 'removed',
  'node.revoke': 'revoked',
  'node.model.load': 'load',
  'node.model.unload': 'unload',
} as const
const catalogueActions = ['model.update', 'model.edit']

export interface ChangeMark {
  readonly at: Date
  readonly kind: (typeof kindOf)[keyof typeof kindOf] | 'start' | 'price'
  readonly nodeId: string | null
  readonly model: string | null
  /** Wei for a token of a prompt and of an answer. */
  readonly prices: readonly string[] | null
}

export interface MarksOf {
  readonly from: Date
  readonly to: Date
  /** Only what concerns this node; null: any. */
  readonly nodeId: string | null
  readonly model: string | null
}

/** The number of the catalogue's newest changes that are compared with the one before. */
const catalogueChangesMax = 2_000

async function nodeChanges(db: Database, { from, to, nodeId, model }: MarksOf, limit: number): Promise<ChangeMark[]> {
  const { action, targetId, metadata, createdAt } = approvalEvents
  const ofModel = sql`(${metadata}->>'model' is null or ${metadata}->>'model' = ${model})`
  const rows = await db
    .select({ action, targetId, metadata, createdAt })
    .from(approvalEvents)
    .where(
      and(
        inArray(action, Object.keys(kindOf)),
        gte(createdAt, from),
        lt(createdAt, to),
        nodeId === null ? undefined : sql`${targetId} = ${nodeId}`,
        model === null ? undefined : ofModel,
      ),
    )
    .orderBy(desc(createdAt))
    .limit(limit)
  return rows.map((row) => ({
    at: row.createdAt,
    kind: kindOf[row.action as keyof typeof kindOf],
    nodeId: row.targetId,
    model: row.metadata.model ?? null,
    prices: null,
  }))
}

/** Changes of a catalogue entry that gave it other prices than it had. */
async function priceChanges(db: Database, { from, to, model }: MarksOf): Promise<ChangeMark[]> {
  const { action, targetId, metadata, createdAt } = approvalEvents
  const rows = await db
    .select({ targetId, prices: sql<string[] | null>`${metadata}->'prices'`, createdAt })
    .from(approvalEvents)
    .where(
      and(
        inArray(action, catalogueActions),
        lt(createdAt, to),
        sql`${metadata}->'prices' is not null`,
        model === null ? undefined : sql`${targetId} = ${model}`,
      ),
    )
    .orderBy(desc(createdAt))
    .limit(catalogueChangesMax)
  const before = new Map<string, string>()
  return rows.toReversed().flatMap(({ targetId: id, prices, createdAt: at }): ChangeMark[] => {
    const [name, text] = [id ?? '', JSON.stringify(prices)]
    const isOther = before.get(name) !== text
    before.set(name, text)
    return isOther && at >= from ? [{ at, kind: 'price', nodeId: null, model: name, prices }] : []
  })
}

async function starts(db: Database, { from, to }: MarksOf, limit: number): Promise<ChangeMark[]> {
  const rows = await db
    .select({ at: gatewayStarts.startedAt })
    .from(gatewayStarts)
    .where(and(gte(gatewayStarts.startedAt, from), lt(gatewayStarts.startedAt, to)))
    .orderBy(desc(gatewayStarts.startedAt))
    .limit(limit)
  return rows.map(({ at }) => ({ at, kind: 'start', nodeId: null, model: null, prices: null }))
}

/** What was changed in a range, oldest first: the newest `limit` of it, and whether that is all. */
export async function changeMarks(
  db: Database,
  of: MarksOf,
  limit: number,
): Promise<{ readonly marks: readonly ChangeMark[]; readonly complete: boolean }> {
  const found = await Promise.all([
    starts(db, of, limit + 1),
    nodeChanges(db, of, limit + 1),
    of.nodeId === null ? priceChanges(db, of) : [],
  ])
  const all = found.flat().toSorted((a, b) => a.at.getTime() - b.at.getTime())
  return { marks: all.slice(-limit), complete: all.length <= limit }
}

/** One more start. Of all of them the newest `keptMax` stay. */
export async function insertStart(db: Database, startedAt: Date, keptMax: number): Promise<void> {
  await db.insert(gatewayStarts).values({ startId: newId('sta'), startedAt })
  const newest = db
    .select({ startId: gatewayStarts.startId })
    .from(gatewayStarts)
    .orderBy(desc(gatewayStarts.startedAt))
    .limit(keptMax)
  await db.delete(gatewayStarts).where(notInArray(gatewayStarts.startId, newest))
}
