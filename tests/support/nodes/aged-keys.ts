import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { sealedKeysFile } from '../../../src/node/sealed/sealed-keys.ts'

interface Stored {
  readonly keys: readonly Readonly<Record<string, unknown>>[]
}

/**
 * Writes into a stopped agent's folder that its keys for sealed inference are due: at its next start it makes a new one. `ended`: so long
 * ago that the old ones open nothing any more, else they still do.
 */
export function ageSealedKeys(folder: string, ended: boolean): void {
  const files = openPrivateFolder(folder)
  const { keys } = files.read(sealedKeysFile) as Stored
  const due = ended ? { rotate_at_ms: 1, not_after_ms: 2 } : { rotate_at_ms: 1 }
  files.write(sealedKeysFile, { keys: keys.map((key) => ({ ...key, ...due })) })
}
