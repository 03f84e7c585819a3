import type { Database } from '../../db/client.ts'
import type { ModelEntryRow, NewModelEntry } from '../../db/queries/pool/model-entries.ts'
import * as rows from '../../db/queries/pool/model-entries.ts'
import { Problem } from '../../errors.ts'
import { modelIdPattern } from '../../ids.ts'
import { checkPrecondition, type Precondition } from '../../precondition.ts'
import type { Deed } from '../audit/audit-context.ts'

export type { NewModelEntry } from '../../db/queries/pool/model-entries.ts'
export type ModelEntry = ModelEntryRow

export interface CatalogueOptions {
  readonly db: Database
  /** Writes the event of the audit into the transaction. */
  readonly record: (tx: Database, deed: Deed) => Promise<void>
  /** Resolves when the routing table follows the change, or after a while. */
  readonly changed: () => Promise<void>
}

const aliasesMax = 64

/** The verbs on catalogue entries, one transaction each. */
export function createCatalogueVerbs({ db, record, changed }: CatalogueOptions) {
  const write = async (
    { modelId }: NewModelEntry,
    precondition: Precondition | null,
    made: (known: NewModelEntry | null) => NewModelEntry,
  ): Promise<ModelEntry> => {
    const row = await db.transaction(async (tx) => {
      await rows.lockModelEntries(tx)
      const entries = await rows.listModelEntries(tx)
      const known = entries.find((entry) => entry.modelId === modelId) ?? null
      checkPrecondition(precondition, known)
      const entry = made(known === null ? null : writtenOf(known))
      const aliases = checkedNames(entry)
      refuseTaken(modelId, aliases, entries)
      const put = await rows.putModelEntry(tx, { ...entry, aliases })
      await record(tx, { targetId: put.modelId })
      return put
    })
    await changed()
    return row
  }
  return {
    /** Creates or replaces the whole entry. No other entry may have any of its names. */
    putModelEntry: (entry: NewModelEntry, precondition: Precondition | null = null) =>
      write(entry, precondition, () => entry),
    /** Changes the given fields of an entry, or creates one that has them. */
    changeModelEntry: (changes: NewModelEntry, precondition: Precondition | null = null) =>
      write(changes, precondition, (known) => ({ ...known, ...changes })),
    deleteModelEntry: async (modelId: string, precondition: Precondition | null = null): Promise<void> => {
      await db.transaction(async (tx) => {
        await rows.lockModelEntries(tx)
        const entry = await rows.getModelEntry(tx, modelId)
        if (entry === null) throw new Problem('model_entry_not_found')
        checkPrecondition(precondition, entry)
        await rows.deleteModelEntry(tx, modelId)
        await record(tx, { targetId: modelId })
      })
      await changed()
    },
  }
}

/** What an operator has said of the model. */
function writtenOf({ revision: _, updatedAt: __, ...written }: ModelEntryRow): NewModelEntry {
  return written
}

/** The aliases of the entry without duplicates and without its own id. */
function checkedNames(entry: NewModelEntry): string[] {
  const aliases = [...new Set(entry.aliases ?? [])].filter((alias) => alias !== entry.modelId)
  const wrong = [entry.modelId, ...aliases].some((name) => !modelIdPattern.test(name))
  if (wrong) throw new Problem('invalid_request', { param: 'aliases', detail: 'This is not a valid model id' })
  if (aliases.length > aliasesMax) {
    throw new Problem('invalid_request', { param: 'aliases', detail: `At most ${aliasesMax} aliases` })
  }
  return aliases
}

function refuseTaken(modelId: string, aliases: readonly string[], entries: readonly ModelEntryRow[]): void {
  const taken = new Set(
    entries.filter((entry) => entry.modelId !== modelId).flatMap((entry) => [entry.modelId, ...entry.aliases]),
  )
  if (taken.has(modelId))
    throw new Problem('invalid_request', { param: 'id', detail: 'Another entry has this id as an alias' })
  if (aliases.some((alias) => taken.has(alias))) {
    throw new Problem('invalid_request', {
      param: 'aliases',
      detail: 'Another entry already uses one of these aliases',
    })
  }
}
