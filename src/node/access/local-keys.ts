import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { PrivateFileError, type PrivateFolder } from '../../host/private-files.ts'
import { newId } from '../../ids.ts'
import { displayPrefix, equalBytes, isWellFormedToken, newToken, sha256Hex } from '../../secrets.ts'
import { isoTime } from '../../time.ts'

export const localKeysFile = 'local-keys.json'
export const localTokenFile = 'local-token.json'
/** How many live keys an agent may have. A revoked key stays in the list until its place is needed. */
export const localKeysMax = 64

const StoredKey = Type.Object({
  key_id: Type.String(),
  name: Type.String(),
  /** The hash of 32 random bytes. A plain hash is enough, and the folder needs no further secret. */
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  display_prefix: Type.String(),
  created_at: Type.String(),
  revoked_at: Type.Union([Type.String(), Type.Null()]),
})
export type LocalKey = Omit<Static<typeof StoredKey>, 'sha256'>
const StoredKeys = Type.Object({ keys: Type.Array(StoredKey) })
type StoredKey = Static<typeof StoredKey>

export interface LocalKeys {
  list(): readonly LocalKey[]
  /** Returns the key with `api_key`, which is shown only once. null if the allowed number of live keys is reached. */
  create(name: string): (LocalKey & { readonly api_key: string }) | null
  /** null if there is no such key. A revoked key stays as it is. */
  revoke(keyId: string): LocalKey | null
  /** True for a live key. It sees changes by other processes at once. */
  accepts(key: string): boolean
}

/**
 * The keys of `X-SVC-API-Key`, which the owner of the computer gives to programs. The command line and the agent share
 * the file: both read it again for every check, which takes some 30 µs (measured).
 */
export function localKeys(folder: PrivateFolder): LocalKeys {
  const read = (): readonly StoredKey[] => {
    const stored = folder.read(localKeysFile)
    if (stored === undefined) return []
    if (!Value.Check(StoredKeys, stored)) throw new PrivateFileError(`${folder.path}/${localKeysFile} is damaged`)
    return stored.keys
  }
  const live = (keys: readonly StoredKey[]) => keys.filter((key) => key.revoked_at === null)
  return {
    list: () => read().map(shown),
    create(name) {
      const keys = read()
      if (live(keys).length >= localKeysMax) return null
      const token = newToken('api')
      const made: StoredKey = {
        key_id: newId('key'),
        name,
        sha256: sha256Hex(token),
        display_prefix: displayPrefix(token),
        created_at: isoTime(Date.now()),
        revoked_at: null,
      }
      const over = keys.filter((key) => key.revoked_at !== null).slice(-localKeysMax)
      folder.write(localKeysFile, { keys: [...over, ...live(keys), made] })
      return { ...shown(made), api_key: token }
    },
    revoke(keyId) {
      const keys = read()
      const found = keys.find((key) => key.key_id === keyId)
      if (found === undefined) return null
      const revoked = { ...found, revoked_at: found.revoked_at ?? isoTime(Date.now()) }
      folder.write(localKeysFile, { keys: keys.map((key) => (key === found ? revoked : key)) })
      return shown(revoked)
    },
    accepts(key) {
      if (!isWellFormedToken(key, 'api')) return false
      const hash = Buffer.from(sha256Hex(key), 'hex')
      return live(read()).some((candidate) => equalBytes(hash, Buffer.from(candidate.sha256, 'hex')))
    },
  }
}

function shown({ sha256: _, ...key }: StoredKey): LocalKey {
  return key
}

const StoredToken = Type.Object({ local_token: Type.String() })

/** The local runtime token. The first start makes it for the user's own programs, which can read the data folder. */
export function loadLocalToken(folder: PrivateFolder): string {
  const stored = folder.read(localTokenFile)
  if (stored === undefined) {
    const made = newToken('local')
    folder.write(localTokenFile, { local_token: made })
    return made
  }
  if (!Value.Check(StoredToken, stored) || !isWellFormedToken(stored.local_token, 'local')) {
    throw new PrivateFileError(`${folder.path}/${localTokenFile} is damaged`)
  }
  return stored.local_token
}
