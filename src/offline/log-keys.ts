import { seededKey } from '../actors/accounts/seeded-key.ts'
import type { SigningKey } from '../protocol/signing/ed25519.ts'
import { readSeed } from '../secrets.ts'
import { listOf } from '../settings/config.ts'
import { OfflineError } from './storage.ts'

/** Keys of SVC_LOG_KEY, newest first; none: it is not known. */
export function logKeysOf(seeds: string | null | undefined): readonly SigningKey[] {
  const all = seeds ? listOf(seeds) : []
  if (all.some((seed) => readSeed(seed) === null)) {
    throw new OfflineError('SVC_LOG_KEY must be a list of 32-byte seeds in base64 or hex.')
  }
  return all.map(seededKey)
}
