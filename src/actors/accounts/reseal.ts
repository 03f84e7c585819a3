import type { Database } from '../../db/client.ts'
import { listSealed, replaceSealed, type SealedKind, sealedKinds } from '../../db/queries/accounts/sealed.ts'
import type { Log } from '../../log.ts'
import { createSealing } from './sealing.ts'

const pageRows = 500

export interface Resealed {
  /** The number of secrets that were encrypted anew with the newest key. */
  readonly resealed: number
  /** The number of secrets that none of the keys can decrypt. */
  readonly unreadable: number
}

/**
 * Puts every stored secret under the newest key, so that the keys behind it can be taken away. `keys`: SVC_SECRETS_KEY,
 * newest first; with one there is nothing to do. Several gateways may do it at once.
 */
export async function resealSecrets(db: Database, keys: readonly string[], log: Log): Promise<Resealed> {
  const sums = { resealed: 0, unreadable: 0 }
  if (keys.length < 2) return sums
  for (const kind of sealedKinds) {
    const { resealed, unreadable } = await resealKind(db, keys, kind)
    sums.resealed += resealed
    sums.unreadable += unreadable
  }
  if (sums.unreadable > 0) log.warn('secrets_unreadable', { count: sums.unreadable })
  log.info('secrets_resealed', { count: sums.resealed })
  return sums
}

async function resealKind(db: Database, keys: readonly string[], kind: SealedKind): Promise<Resealed> {
  const all = createSealing(keys)
  const newest = createSealing(keys.slice(0, 1))
  let [resealed, unreadable] = [0, 0]
  for (let after: string | null = null; ; ) {
    const rows = await listSealed(db, kind, after, pageRows)
    for (const row of rows) {
      if (newest.open(kind, row.sealed) !== null) continue
      const secret = all.open(kind, row.sealed)
      if (secret === null) unreadable++
      else {
        await replaceSealed(db, kind, row, newest.seal(kind, secret))
        resealed++
      }
    }
    after = rows.at(-1)?.id ?? null
    if (rows.length < pageRows) return { resealed, unreadable }
  }
}
