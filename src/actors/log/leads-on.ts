import type { Database } from '../../db/client.ts'
import type { LogState } from '../../db/queries/log/log.ts'
import type { Checkpoint } from '../../protocol/log/checkpoint.ts'
import { sameHash } from '../../protocol/log/merkle-log.ts'
import { isEarlier } from '../../protocol/log/origins.ts'
import { rootThen } from './tree.ts'

/** The operator has made the fork known, here or at another gateway; an earlier name is that of a database put back. */
export const isNamed = (origin: string, seen: string): boolean => origin !== seen && !isEarlier(origin, seen)

/** Whether the log in the database leads on from a checkpoint that was seen of it, or has another name by intention. */
export async function leadsOn(
  db: Database,
  state: Pick<LogState, 'origin' | 'size'>,
  seen: Checkpoint,
): Promise<boolean> {
  if (isNamed(state.origin, seen.origin)) return true
  if (seen.origin !== state.origin || seen.size > state.size) return false
  return sameHash(await rootThen(db, seen.size), seen.root)
}
