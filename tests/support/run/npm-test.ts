import { test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Otherwise npm start would begin with `npm ci`, under the tests that run: of another installer's work it knows nothing. */
export const installedByNpm =
  Bun.which('npm') !== null && existsSync(join(import.meta.dir, '../../../node_modules/.package-lock.json'))

/** For what starts the program as an operator does. */
export const npmTest = test.skipIf(!installedByNpm)
