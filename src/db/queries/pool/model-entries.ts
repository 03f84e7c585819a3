import { asc, eq, getTableColumns, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { knownModels, modelEntries } from '../../schema/pool.ts'

export interface Known {
  /** When its id was first known here. */
  readonly knownAt: Date
}
export type ModelEntryRow = typeof modelEntries.$inferSelect & Known
export type NewModelEntry = Omit<typeof modelEntries.$inferInsert, 'updatedAt' | 'revision'>

/** A gateway of a version before does not write when it first knew a model: then the row itself says it. */
const entryColumns = {
  ...getTableColumns(modelEntries),
  knownAt: sql<Date>`coalesce(${knownModels.knownAt}, ${modelEntries.updatedAt})`.mapWith(knownModels.knownAt),
}
const selectEntries = (db: Database) =>
  db.select(entryColumns).from(modelEntries).leftJoin(knownModels, eq(knownModels.modelId, modelEntries.modelId))

/** The first time counts. The order is the same everywhere: otherwise two gateways could wait for each other. */
export async function know(db: Database, sortedIds: readonly string[]): Promise<void> {
  await db
    .insert(knownModels)
    .values(sortedIds.map((modelId) => ({ modelId })))
    .onConflictDoNothing()
}

export async function listModelEntries(db: Database): Promise<readonly ModelEntryRow[]> {
  return selectEntries(db).orderBy(asc(modelEntries.modelId))
}

/** Held until the transaction ends, because the names of all entries must differ. */
export async function lockModelEntries(tx: Database): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 2)`)
}

export async function getModelEntry(db: Database, modelId: string): Promise<ModelEntryRow | null> {
  const [row] = await selectEntries(db).where(eq(modelEntries.modelId, modelId))
  return row ?? null
}

/** Makes or replaces the whole entry: what is not given returns to its default. */
export async function putModelEntry(db: Database, entry: NewModelEntry): Promise<ModelEntryRow> {
  const all = {
    aliases: [],
    name: null,
    description: null,
    inputModalities: null,
    outputModalities: null,
    serves: null,
    contextLength: null,
    maxOutputLength: null,
    promptTokenPriceWei: null,
    completionTokenPriceWei: null,
    usdPrices: null,
    ...entry,
  }
  await know(db, [entry.modelId])
  await db
    .insert(modelEntries)
    .values(all)
    .onConflictDoUpdate({ target: modelEntries.modelId, set: { ...all, updatedAt: sql`now()` } })
  const row = await getModelEntry(db, entry.modelId)
  if (row === null) throw new Error('a catalogue entry was not stored')
  return row
}

export async function deleteModelEntry(db: Database, modelId: string): Promise<boolean> {
  const gone = await db
    .delete(modelEntries)
    .where(eq(modelEntries.modelId, modelId))
    .returning({ modelId: modelEntries.modelId })
  return gone.length > 0
}
