import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dir, '../..')
/** They look at a server of their own. */
const ownServer = new Set(['reliability/database-shutdown.test.ts', 'support/run/kill-server.ts'])

test('what tests ask of locks and sessions is asked of their own database: one server serves the whole run', () => {
  const asking = [...new Bun.Glob('**/*.ts').scanSync({ cwd: join(root, 'tests') })]
    .filter((file) => !(file.startsWith('heavy/') || file.endsWith('sessions-of-others.test.ts')))
    .map((file) => ({ file, text: readFileSync(join(root, 'tests', file), 'utf8') }))
    .filter(({ text }) => /from\s+(?:pg_locks|pg_stat_activity)/.test(text))
  expect(asking.length).toBeGreaterThan(8)
  const ofAll = asking.flatMap(({ file, text }) =>
    [...text.matchAll(/from\s+(?:pg_locks|pg_stat_activity)[^`]*`/g)]
      .filter(([query]) => !/current_database\(\)|application_name/.test(query))
      .map(() => file),
  )
  expect([...new Set(ofAll)].sort()).toEqual([...ownServer].sort())
})
