import { chmodSync, mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A new folder in which a test has data folders. Started as root, their PostgreSQL runs as another user, who may walk through
 * this one: behind a closed folder it is kept in `/var/lib/penstock`, which no test removes.
 */
export function openFolder(prefix: string): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), prefix)))
  chmodSync(folder, 0o711)
  return folder
}
